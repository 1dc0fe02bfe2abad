"""What is run: a rule with its constants and schedules."""

from dataclasses import dataclass

import numpy as np

from heavystep import validation
from heavystep.arrays import Array
from heavystep.rules import SCALINGS, growth_factor, kappa
from heavystep.schedules import PowerLaw
from heavystep.simulation.checks import MAX_TRIALS, check_rule, check_schedule, schedule_values
from heavystep.simulation.choice import ArmijoRule, FixedRule, PolyakRule
from heavystep.simulation.trajectory import Parameters
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

    def parameters(self, first: int, count: int) -> Parameters:
        """The schedules for the steps first .. first + count - 1."""
        k = np.arange(first, first + count)
        beta, cap = schedule_values(self.beta, k), schedule_values(self.gamma_max, k)
        factor = schedule_values(kappa(self.scaling, beta), k)
        return Parameters(factor, cap, schedule_values(self.eta, k), beta)

    def least_steps(self, L: float, first: int, count: int) -> Array:
        """gamma_min,k of Lemmas 2 and 5, before the multiplier; a fixed step is itself."""
        now = self.parameters(first, count)
        if self.rule == "fixed":
            return now.cap
        least: Array = smallest_step(
            self.rule, L=L, c=self.c, omega=self.omega, kappa=now.kappa, cap=now.cap
        )
        return least

    def weights(self, L: float, first: int, count: int) -> Array:
        """Weights of theta_{k+1} in the average, one a step; none for a uniform average."""
        if self.average == "uniform":
            return np.empty(0)
        eta: Array = schedule_values(self.eta, np.arange(first + 1, first + count + 1))
        return eta * self.least_steps(L, first + 1, count)
