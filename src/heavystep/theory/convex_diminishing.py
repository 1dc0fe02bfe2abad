"""Theorem 6: exact convergence of the weighted average for convex objectives."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from heavystep import validation
from heavystep.arrays import Array
from heavystep.schedules import Schedules
from heavystep.theory import conditions, schedule_assumption
from heavystep.theory.arguments import documented
from heavystep.theory.condition_on_c import c_limit, smallest_K
from heavystep.theory.diminishing_step_bounds import DiminishingSteps
from heavystep.theory.robbins_siegmund import almost_supermartingale

THEOREM = "Theorem 6"


@dataclass(frozen=True)
class ConvexDiminishing(DiminishingSteps):
    """What Theorem 6 promises: the gap of the weighted average is O(1 / S_k) almost surely."""

    sigma2: float
    K: int
    """The condition on c holds for all k > K; -1 means from the start."""
    c_limit: float
    """The supremum over k > K that c was compared with."""

    def bound(self, k: Any, *, dist0_sq: float, gap0: float) -> Any:
        r"""Bound on the expected gap of the weighted average after ``k`` steps, for K = -1 only.

        The theorem says O(1 / S_k); this is the constant that its proof carries. With
        :math:`P` from :func:`almost_supermartingale`, alpha = beta, its two recursions give

        .. math:: \sum_{m=1}^k\eta_m\gamma_{\min,m}E[F(\theta_m)-F^\star] \le
                  \frac{P_{k+1}}{\min_m (1+\beta_m)(2-\eta_m/c)}\Big(\|\theta_0-\theta^\star\|^2
                  + \frac{\beta_1(1+\beta_1)}{1-\beta_1}H_k + \sum_{j\le k}\frac{z_j}{P_{j+1}}\Big)

        It is infinite beyond the range of float64: P grows like exp(sum of beta_k).

        Args:
            k: number of steps >= 1, a number or an array.
            dist0_sq: ||theta_0 - theta*||^2.
            gap0: F(theta_0) - F(theta*).
        """
        conditions.real(THEOREM, validation.NON_NEGATIVE, dist0_sq=dist0_sq, gap0=gap0)
        conditions.require(
            THEOREM, self.K == -1, "its condition on c from k = 0 for a finite bound", K=self.K
        )
        counts = conditions.steps(THEOREM, k, least=1)
        conditions.at_most(THEOREM, counts, 1e7)
        last = counts.astype(np.int64)
        j = np.arange(last.max() + 1)
        eta, beta, gamma_max = (law(j) for law in self.schedules)
        gamma_min = self.gamma_min(j)
        gain = (1.0 + beta) * (2.0 - eta / self.c)
        spread = 2.0 * eta * (gamma_max - gamma_min)
        curve = eta**2 * gamma_min / self.c
        velocity_noise = (1.0 + beta) * ((1.0 + beta) * spread + 2.0 * curve) * self.sigma2
        distance_noise = (1.0 + beta) * (spread + curve) * self.sigma2
        V0 = dist0_sq + 2.0 * eta[0] * gamma_max[0] * beta[0] * gap0
        velocity = almost_supermartingale(V0, beta, velocity_noise)
        distance = almost_supermartingale(dist0_sq, beta, distance_noise)
        # beta_k ||theta_k - theta_{k-1}||^2 enters the second recursion; theta_0 = theta_{-1}.
        carried = beta[1] * (1.0 + beta[1]) / (1.0 - beta[1]) * velocity.budget
        total = carried + distance.budget
        factor = velocity.growth / np.minimum.accumulate(gain)
        with np.errstate(over="ignore"):  # a total of 0 stays 0, however large the factor
            sums = np.multiply(factor, total, out=np.zeros_like(total), where=total > 0.0)
        return conditions.like(k, sums[last] / np.asarray(self.weight_sum(last)))


@documented(
    K="from where on the condition on c is asked for, >= -1; None: the smallest.",
)
def convex_diminishing(
    rule: str,
    *,
    L: float,
    schedules: Schedules,
    c: float,
    omega: float | None = None,
    sigma2: float = 0.0,
    K: int | None = None,
) -> ConvexDiminishing:
    r"""Conditions and sums of exact convergence for convex objectives (Theorem 6).

    .. math:: F(\bar\theta^{\rm w}_k) - F(\theta^\star) = O(1/S_k)\ \text{a.s.},\quad
              \bar\theta^{\rm w}_k = \frac{\sum_{m=1}^k\eta_m\gamma_{\min,m}\theta_m}
              {\sum_{m=1}^k\eta_m\gamma_{\min,m}},\quad S_k = \sum_{m=1}^k\eta_m\gamma_{\max,m}

    Assumes convex L-smooth samples, finite sigma^2, Assumption 5 and the condition on c
    (:mod:`heavystep.theory.condition_on_c`) for all k > K.

    Raises:
        ValueError: a condition fails; names the theorem, the inequality and the numbers.

    >>> laws = Schedules.power_laws(0.5, 0.4, 0.9, 1.1, 0.02, 0.3)
    >>> promise = convex_diminishing("polyak", L=42.0, schedules=laws, c=0.75)
    >>> promise.K, round(promise.S(100), 4)
    (-1, 0.9965)

    Reference: Zhang, Shi and Gu, Theorem 6 (label convex_as_dec), Appendix C.
    """
    schedule_assumption.check(THEOREM, rule, L=L, schedules=schedules, c=c, omega=omega)
    conditions.real(THEOREM, validation.NON_NEGATIVE, sigma2=sigma2)
    steps = DiminishingSteps(rule, L, schedules, c, omega)
    if K is None:
        K = smallest_K(steps)
    else:
        K = int(conditions.steps(THEOREM, np.asarray(K) + 1, least=0)) - 1
    limit = c_limit(steps, K)
    conditions.require(
        THEOREM,
        limit <= c,
        "c >= sup over k > K of eta_k / (1 + beta_k - beta_k/(1 + beta_k) gamma_max,k/gamma_min,k)",
        c=c,
        sup=limit,
        K=K,
    )
    return ConvexDiminishing(rule, L, schedules, c, omega, sigma2, K, limit)


def diminishing_distance(
    dist_sq: Array,
    moved_sq: Array,
    gap: Array,
    optimal_gap: Array,
    *,
    gamma: Array,
    eta: Array,
    beta: Array,
    c: float,
) -> Array:
    r"""Upper bound on :math:`\|\theta_{k+1}-\theta^\star\|^2` at every k, on every run.

    .. math:: (1+\beta_k)\Big(\|\theta_k-\theta^\star\|^2 + \beta_k\|\theta_k-\theta_{k-1}\|^2
              - \gamma_k\big(2-\tfrac{\eta_k}c\big)\big(f_k-f^\star(x_k)\big)
              + 2\gamma_k\big(f(\theta^\star;x_k)-f^\star(x_k)\big)\Big)

    Arrays (..., K): squared distances of theta_k, squared moves theta_k - theta_{k-1}, sampled
    gaps at theta_k and at theta*, steps and schedules.

    Reference: Zhang, Shi and Gu, eq. (dec_convex_distance), Appendix C.
    """
    progress = gamma * (2.0 - eta / c) * gap
    right: Array = (1.0 + beta) * (dist_sq + beta * moved_sq - progress + 2.0 * gamma * optimal_gap)
    return right
