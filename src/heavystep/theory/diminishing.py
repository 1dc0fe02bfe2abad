"""Assumption 5, Lemmas 5 and 7: schedules, step bounds, and the sums behind Theorems 6-9."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from heavystep import validation
from heavystep.arrays import Array
from heavystep.schedules import PowerLaw, Schedules, check_diminishing
from heavystep.theory import conditions
from heavystep.theory.arguments import documented
from heavystep.theory.rules import checked
from heavystep.theory.steps import StepBounds, smallest_step


def check(
    result: str, rule: str, *, L: float, schedules: Schedules, c: float, omega: float | None
) -> None:
    """Check the arguments that results on diminishing steps share; errors name ``result``."""
    conditions.real(result, validation.POSITIVE, L=L)
    checked(result, rule, c=c, omega=omega)
    check_schedules(result, schedules)


def check_schedules(result: str, schedules: Schedules) -> None:
    """Refuse schedules outside Assumption 5; the error names the item that fails.

    Reference: Zhang, Shi and Gu, Assumption 5 (label as_decay), Section 4.
    """
    if not isinstance(schedules, Schedules):
        raise TypeError(f"{result} needs schedules of type Schedules, got {schedules!r}")
    eta, beta, gamma_max = schedules
    conditions.real(result, validation.POSITIVE, eta0=eta.initial, gamma_max0=gamma_max.initial)
    conditions.real(result, validation.UNIT, beta0=beta.initial)
    powers = {name: law for name, law in schedules._asdict().items() if isinstance(law, PowerLaw)}
    for name, law in schedules._asdict().items():
        if name in powers:
            conditions.real(result, validation.FINITE, **{f"{name}_power": law.power})
        conditions.real(result, validation.POSITIVE, **{f"{name}_horizon": law.horizon})
    if isinstance(beta, PowerLaw):
        conditions.real(result, validation.NON_NEGATIVE, beta_power=beta.power)
    horizons = {law.horizon for law in powers.values()}
    if len(powers) == len(schedules) and len(horizons) > 1:
        raise ValueError(f"{result} needs one horizon for all schedules, got {sorted(horizons)}")
    try:
        check_diminishing(eta, beta, gamma_max)
    except ValueError as error:
        reason = str(error).replace("max_step_power", "gamma_max_power")
        raise ValueError(f"{result}: {reason}") from None


BLOCK = 1 << 20


@dataclass(frozen=True)
class DiminishingSteps:
    """Smallest and largest steps of a diminishing variant, and the sums made of them."""

    rule: str
    L: float
    schedules: Schedules
    c: float
    omega: float | None

    def gamma_min(self, k: Any) -> Any:
        """gamma_min,k: smallest step before the multiplier (Lemma 5)."""
        cap = self.schedules.gamma_max(k)
        return smallest_step(self.rule, L=self.L, c=self.c, omega=self.omega, kappa=1.0, cap=cap)

    def weights(self, k: int) -> Array:
        """Weights eta_m gamma_min,m of theta_1 .. theta_k in the weighted average (Theorem 6)."""
        count = conditions.steps("Theorem 6", k, least=1)
        conditions.at_most("Theorem 6", count, 1e8)
        if count.ndim:
            raise ValueError(f"Theorem 6 needs one k for the weights, got {k!r}")
        m = np.arange(1, int(count) + 1)
        weights: Array = self.schedules.eta(m) * self.gamma_min(m)
        return weights

    def S(self, k: Any) -> Any:
        r""":math:`S_k = \sum_{m=1}^k \eta_m\gamma_{\max,m}`, whose inverse is the rate."""
        eta, _, gamma_max = self.schedules
        return self._sums(k, lambda m: eta(m) * gamma_max(m))

    def weight_sum(self, k: Any) -> Any:
        r""":math:`\sum_{m=1}^k \eta_m\gamma_{\min,m}`, the denominator of the weighted average."""
        return self._sums(k, lambda m: self.schedules.eta(m) * self.gamma_min(m))

    def rate(self, k: Any) -> Any:
        """1 / S_k, the order at which the theorem's quantity goes to zero."""
        return 1.0 / self.S(k)

    def _sums(self, k: Any, term: Callable[[Array], Array]) -> Any:
        steps = conditions.steps("S_k", k, least=1)
        conditions.at_most("S_k", steps, 1e9)
        sums, total = np.zeros(steps.shape), 0.0
        for first in range(1, int(steps.max()) + 1, BLOCK):
            partial = total + np.cumsum(term(np.arange(first, first + BLOCK)))
            here = (steps >= first) & (steps < first + BLOCK)
            sums[here] = partial[(steps[here] - first).astype(np.int64)]
            total = float(partial[-1])
        return conditions.like(k, sums)


@documented(k="step >= 0, a number or an array.")
def diminishing_step_bounds(
    rule: str, *, L: float, schedules: Schedules, c: float, omega: float | None = None, k: Any
) -> StepBounds:
    r"""Smallest and largest step of a diminishing variant at step k (Lemma 5).

    .. math:: \eta_k\min\Big\{\frac1{2cL},\gamma_{\max,k}\Big\}\ \text{(Polyak)},\qquad
              \eta_k\min\Big\{\gamma_{\max,k},\frac{2\omega(1-c)}L\Big\}\ \text{(Armijo)}

    Holds at every step with a gradient that does not vanish, on every run.

    >>> schedules = Schedules.power_laws(0.5, 0.4, 0.9, 1.1, 1.0, 0.3)
    >>> diminishing_step_bounds("polyak", L=2.0, schedules=schedules, c=1.0, k=0)
    StepBounds(gamma_min=0.125, gamma_max=0.5)

    Reference: Zhang, Shi and Gu, Lemma 5 (label dec_stepsize_bounds), Section 4.
    """
    check("Lemma 5", rule, L=L, schedules=schedules, c=c, omega=omega)
    steps = conditions.steps("Lemma 5", k, least=0)
    eta, _, gamma_max = schedules
    least = DiminishingSteps(rule, L, schedules, c, omega).gamma_min(steps)
    return StepBounds(
        conditions.like(k, eta(steps) * least), conditions.like(k, eta(steps) * gamma_max(steps))
    )


class AlmostSupermartingale(NamedTuple):
    """The two sequences in the finite form of the lemma."""

    growth: Array
    """:math:`P_{j+1} = \\prod_{i \\le j} (1 + \\alpha_i)`; inf beyond the range of float64."""
    budget: Array
    r""":math:`V_0 + \sum_{i \le j} Z_i / P_{i+1}`, the right side of the inequality."""


def almost_supermartingale(V0: float, alpha: Array, Z: Array) -> AlmostSupermartingale:
    r"""Finite form of the lemma that carries Theorems 6 and 7 (Lemma 7).

    If :math:`E[V_{j+1}\mid\mathcal F_j] + U_j \le (1+\alpha_j)V_j + Z_j` for nonnegative
    :math:`V, U` and deterministic :math:`Z`, dividing by :math:`P_{j+1}` and summing gives for
    every j

    .. math:: \frac{E V_{j+1}}{P_{j+1}} + \sum_{i=0}^{j}\frac{E U_i}{P_{i+1}}
              \le V_0 + \sum_{i=0}^{j}\frac{Z_i}{P_{i+1}}

    If both series converge, :math:`V_j` converges and :math:`\sum_j U_j < \infty` almost surely.

    Args:
        V0: value at the start, >= 0.
        alpha: (K,) nonnegative.
        Z: (K,) nonnegative.

    >>> almost_supermartingale(1.0, np.array([1.0, 0.0]), np.array([2.0, 2.0]))
    AlmostSupermartingale(growth=array([2., 2.]), budget=array([2., 3.]))

    Reference: Zhang, Shi and Gu, Lemma 7 (label dec_robbins_siegmund), Appendix C.
    """
    start, alpha, Z = conditions.finite_arrays("Lemma 7", nonnegative=True, V0=V0, alpha=alpha, Z=Z)
    with np.errstate(over="ignore"):
        growth = np.exp(np.cumsum(np.log1p(alpha)))
    return AlmostSupermartingale(growth, start + np.cumsum(Z / growth))
