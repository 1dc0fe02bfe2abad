"""What is run: a rule with its constants and schedules."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from heavystep import validation
from heavystep.arrays import Array
from heavystep.engine.checks import MAX_TRIALS, check_rule, check_schedule, schedule_values
from heavystep.engine.choice import ArmijoRule, FixedRule, PolyakRule
from heavystep.engine.trajectory import Parameters
from heavystep.rules import SCALINGS, growth_factor, kappa
from heavystep.schedules import PowerLaw
from heavystep.theory.step_bounds import smallest_step

Schedule = float | PowerLaw


@dataclass(frozen=True)
class Method:
    """Stochastic heavy ball with one of the rules; schedules where there are power laws."""

    rule: str
    """``"polyak"``, ``"armijo"``, or ``"fixed"``: the step is gamma_max."""
    beta: Schedule
    c: float
    gamma_max: Schedule
    omega: float | None = None
    eta: Schedule = 1.0
    scaling: str = "theory"
    average: str = "uniform"
    """``"uniform"``: theta_0 .. theta_{k-1} (Theorem 2); ``"weighted"``: theta_1 .. theta_k with
    weights eta_m gamma_min,m (Theorem 6)."""
    steps_per_epoch: float | None = None
    """n_b of the smooth reset; None: there is none."""
    growth: float = 4.0
    """Factor by which a step may grow in an epoch, under the smooth reset."""

    def __post_init__(self) -> None:
        if self.rule != "fixed":
            check_rule(self.rule, c=self.c, omega=self.omega)
        check_schedule("beta", self.beta, validation.UNIT)
        check_schedule("gamma_max", self.gamma_max, validation.POSITIVE)
        check_schedule("eta", self.eta, validation.NON_NEGATIVE)
        validation.choice("scaling", self.scaling, SCALINGS)
        validation.choice("average", self.average, ("uniform", "weighted"))
        validation.real("growth", self.growth, validation.AT_LEAST_ONE)
        if self.steps_per_epoch is not None:
            validation.real("steps_per_epoch", self.steps_per_epoch, validation.POSITIVE)

    @classmethod
    def fixed(cls, step: Schedule, beta: Schedule) -> "Method":
        """Heavy ball with a step that is given.

        >>> Method.fixed(0.01, beta=0.9).kernel_rule()
        FixedRule(c=1.0)
        """
        return cls("fixed", beta, 1.0, step, scaling="plain")

    def kernel_rule(self) -> FixedRule | PolyakRule | ArmijoRule:
        """The rule's constants, as kernels take them."""
        if self.omega is not None:
            return ArmijoRule(self.c, self.omega, MAX_TRIALS)
        return FixedRule(self.c) if self.rule == "fixed" else PolyakRule(self.c)

    def growth_factor(self) -> float:
        """By how much a step may exceed the last one."""
        return growth_factor(self.growth, self.steps_per_epoch)

    def parameters(self, L: float, first: int, count: int) -> Parameters:
        """The schedules for the steps first .. first + count - 1."""
        k = np.arange(first, first + count)
        now, eta = _Caps(self, L, k), schedule_values(self.eta, k)
        weight = np.empty(0)
        if self.average == "weighted":
            weight = schedule_values(self.eta, k + 1) * _Caps(self, L, k + 1).least
        return Parameters(now.kappa, now.cap, eta, now.beta, now.least, weight)


class _Caps:
    """Momentum, scaling and step bounds before the multiplier, at the steps k."""

    def __init__(self, method: Method, L: float, k: Array) -> None:
        self.beta, self.cap = schedule_values(method.beta, k), schedule_values(method.gamma_max, k)
        self.kappa = schedule_values(kappa(method.scaling, self.beta), k)
        self.least: Any = self.cap
        if method.rule != "fixed":
            self.least = smallest_step(
                method.rule,
                L=L,
                c=method.c,
                omega=method.omega,
                kappa=self.kappa,
                cap=self.cap,
            )
