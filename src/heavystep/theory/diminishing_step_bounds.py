"""Lemma 5: step bounds of the diminishing variants, and the sums S_k made of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from heavystep.arrays import Array
from heavystep.schedules import Schedules
from heavystep.theory import conditions
from heavystep.theory.arguments import documented
from heavystep.theory.schedule_assumption import check
from heavystep.theory.step_bounds import StepBounds, smallest_step

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


@documented(
    k="step >= 0, a number or an array.",
)
def diminishing_step_bounds(
    rule: str,
    *,
    L: float,
    schedules: Schedules,
    c: float,
    omega: float | None = None,
    k: Any,
) -> StepBounds:
    r"""Smallest and largest step of a diminishing variant at step k (Lemma 5).

    .. math:: \eta_k\min\Big\{\frac1{2cL},\gamma_{\max,k}\Big\}\ \text{(Polyak)},\qquad
              \eta_k\min\Big\{\gamma_{\max,k},\frac{2\omega(1-c)}L\Big\}\ \text{(Armijo)}

    Holds at every step with a gradient that does not vanish, on every run.

    Raises:
        ValueError: a condition fails; names the lemma, the inequality and the numbers.

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
