"""Theorems 6 and 8: exact convergence of the weighted average for convex objectives."""

from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from math import inf, sqrt
from typing import Any

import numpy as np

from heavystep import validation
from heavystep.arrays import Array
from heavystep.schedules import Schedules
from heavystep.theory import conditions
from heavystep.theory.arguments import documented
from heavystep.theory.conditions import smallest_index
from heavystep.theory.diminishing import DiminishingSteps, almost_supermartingale, check

TOLERANCE = 1e-9


def c_condition(steps: DiminishingSteps, k: int) -> float:
    """g(k) above; infinite if its denominator is not positive."""
    return _envelope(steps, k, k)


def _envelope(steps: DiminishingSteps, first: int, last: float) -> float:
    """Upper bound on g over first <= k <= last, exact for a single k.

    All schedules and gamma_max / gamma_min decrease, so the numerator and the part that is
    subtracted are largest at ``first``, the part that is added is smallest at ``last``.
    """
    eta, beta, gamma_max = steps.schedules
    beta_first, beta_last = float(beta(first)), 0.0 if last == inf else float(beta(last))
    cap, least = float(gamma_max(first)), float(steps.gamma_min(first))
    ratio = cap / least if least > 0.0 else 1.0  # both underflowed: the cap is what binds
    denominator = 1.0 + beta_last - beta_first / (1.0 + beta_first) * ratio
    return float(eta(first)) / denominator if denominator > 0.0 else inf


def c_limit(steps: DiminishingSteps, K: int) -> float:
    r"""The supremum of g over all k > K: what c must be at least.

    Branch and bound on :func:`_envelope`: exact up to a relative 1e-9, from above. Power laws
    with p_eta > 0, the only ones that Assumption 5 leaves, make it fall to 0 as K grows.

    >>> from heavystep.schedules import Schedules
    >>> laws = Schedules.power_laws(0.5, 0.4, 0.9, 1.1, 0.02, 0.3)
    >>> round(c_limit(DiminishingSteps("polyak", 42.0, laws, 0.75, None), K=0), 4)
    0.3837
    """
    least = K + 1
    best = c_condition(steps, least)
    order = count()  # ties in the heap are broken by age, intervals are never compared
    heap = [(-_envelope(steps, least, inf), next(order), least, inf)]
    while heap and best < inf:
        upper, _, first, last = heappop(heap)
        if -upper <= best * (1.0 + TOLERANCE):
            return -upper if -upper > best else best
        if last - first <= 1:
            continue  # both ends are known
        middle = _between(first, last, steps.schedules.eta.horizon)
        best = max(best, c_condition(steps, middle))
        for start, end in ((first, middle), (middle, last)):
            heappush(heap, (-_envelope(steps, start, end), next(order), start, end))
    return best


def _between(first: int, last: float, horizon: float) -> int:
    """A whole number between the two: halfway in log(1 + k / h), on which the schedules depend."""
    if last == inf:
        return 2 * first + int(horizon) + 2
    halfway = sqrt(horizon + first) * sqrt(horizon + last) - horizon
    return min(max(int(halfway), first + 1), int(last) - 1)


def smallest_K(steps: DiminishingSteps) -> int:
    """The smallest K >= -1 beyond which c meets the condition; -1 means from k = 0 on.

    It exists for every c > 0, because g goes to 0.
    """
    return smallest_index(
        lambda K: c_limit(steps, K) <= steps.c, f"Theorem 6's condition on c = {steps.c:g}"
    )


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


@documented(K="from where on the condition on c is asked for, >= -1; None: the smallest.")
def convex_diminishing(
    rule: str, *, L: float, schedules: Schedules, c: float, omega: float | None = None,
    sigma2: float = 0.0, K: int | None = None,
) -> ConvexDiminishing:  # fmt: skip
    r"""Conditions and sums of exact convergence for convex objectives (Theorem 6).

    .. math:: F(\bar\theta^{\rm w}_k) - F(\theta^\star) = O(1/S_k)\ \text{a.s.},\quad
              \bar\theta^{\rm w}_k = \frac{\sum_{m=1}^k\eta_m\gamma_{\min,m}\theta_m}
              {\sum_{m=1}^k\eta_m\gamma_{\min,m}},\quad S_k = \sum_{m=1}^k\eta_m\gamma_{\max,m}

    Assumes convex L-smooth samples, finite sigma^2, Assumption 5 and the condition on c
    (:mod:`heavystep.theory.convex_diminishing`) for all k > K.

    >>> laws = Schedules.power_laws(0.5, 0.4, 0.9, 1.1, 0.02, 0.3)
    >>> promise = convex_diminishing("polyak", L=42.0, schedules=laws, c=0.75)
    >>> promise.K, round(promise.S(100), 4)
    (-1, 0.9965)

    Reference: Zhang, Shi and Gu, Theorem 6 (label convex_as_dec), Appendix C.
    """
    check(THEOREM, rule, L=L, schedules=schedules, c=c, omega=omega)
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
    dist_sq: Array, moved_sq: Array, gap: Array, optimal_gap: Array,
    *, gamma: Array, eta: Array, beta: Array, c: float,
) -> Array:  # fmt: skip
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


def convex_tail_bound(
    tail_gap: Array, tail_gradient: Array, *, head: Array, total: Array, diameter: Array, L: float
) -> Array:
    r"""Upper bound on :math:`W_k (F(\bar\theta^{\rm w}_k)-F^\star)` for n < k (Theorem 8).

    .. math:: W_k\big(F(y_{n,k})-F^\star\big) + M W_n\|\nabla F(y_{n,k})\|
              + \frac{LM^2W_n^2}{2W_k},\qquad W_k = \sum_{m=1}^k\eta_m\gamma_{\min,m}

    with the weighted average :math:`y_{n,k}` of theta_{n+1} .. theta_k and
    :math:`M \ge \|\bar\theta^{\rm w}_n-y_{n,k}\|`. As k grows the right side goes to the tail
    of a convergent sum, so that the left side goes to 0: the gap is o(1 / W_k) almost surely,
    under the conditions of Theorem 6.

    Args:
        tail_gap: F(y_{n,k}) - F*.
        tail_gradient: ||grad F(y_{n,k})||.
        head: W_n.
        total: W_k.
        diameter: M.
        L: smoothness of F.

    >>> import numpy as np
    >>> half, one = np.array(0.5), np.array(1.0)
    >>> convex_tail_bound(half, one, head=one, total=4.0 * one, diameter=2.0 * one, L=1.0)
    np.float64(4.5)

    Reference: Zhang, Shi and Gu, Theorem 8 (label convex_as_dec_little_o), Appendix C.
    """
    gap, slope, head, total, diameter = conditions.finite_arrays(
        "Theorem 8",
        nonnegative=True,
        tail_gap=tail_gap,
        tail_gradient=tail_gradient,
        head=head,
        total=total,
        diameter=diameter,
    )
    conditions.require("Theorem 8", bool((total > 0.0).all()), "W_k > 0", W_k=float(total.min()))
    bound: Array = total * gap + diameter * head * slope + L * diameter**2 * head**2 / (2.0 * total)
    return bound
