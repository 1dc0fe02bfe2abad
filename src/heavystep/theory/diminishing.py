r"""Theorems 6 to 9: diminishing steps and exact convergence.

With the smallest step gamma_min,k of Lemma 5, Theorem 6 asks for c >= g(k) at all k > K, where

.. math:: g(k) = \eta_k \Big/ \Big(1 + \beta_k
          - \frac{\beta_k}{1+\beta_k}\,\frac{\gamma_{\max,k}}{\gamma_{\min,k}}\Big)
"""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np

from heavystep.arrays import Array
from heavystep.schedules import Schedules
from heavystep.theory import conditions
from heavystep.theory.lemmas import almost_supermartingale, check_schedules, smallest_step
from heavystep.theory.registry import CONVEX, GROWTH, NOISE, SMOOTH, result
from heavystep.validation import NON_NEGATIVE

TOLERANCE = 1e-9
"""Relative error of a supremum, from above; c is never given to so many digits."""
BLOCK = 1 << 20
"""Terms that are added up at a time: arrays of 8 MiB, however many steps there are."""
RATIO = "eta_k / (1 + beta_k - beta_k/(1 + beta_k) gamma_max,k/gamma_min,k)"


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
        last = conditions.steps("Theorem 6", k, least=1, most=1e8)
        if last.ndim:
            raise ValueError(f"Theorem 6 needs one k for the weights, got {k!r}")
        m = np.arange(1, int(last) + 1)
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
        steps = conditions.steps("S_k", k, least=1, most=1e9)
        sums, total = np.zeros(steps.shape), 0.0
        for first in range(1, int(steps.max()) + 1, BLOCK):
            partial = total + np.cumsum(term(np.arange(first, first + BLOCK)))
            here = (steps >= first) & (steps < first + BLOCK)
            sums[here] = partial[(steps[here] - first).astype(np.int64)]
            total = float(partial[-1])
        return conditions.like(k, sums)


def c_condition(steps: DiminishingSteps, first: int, last: float | None = None) -> float:
    """g(first) above, or an upper bound on g over first <= k <= last; inf without a denominator.

    All schedules and gamma_max / gamma_min decrease, so the numerator and the part that is
    subtracted are largest at ``first``, the part that is added is smallest at ``last``.
    """
    eta, beta, gamma_max = steps.schedules
    last = first if last is None else last
    beta_first, beta_last = float(beta(first)), 0.0 if last == inf else float(beta(last))
    cap, least = float(gamma_max(first)), float(steps.gamma_min(first))
    ratio = cap / least if least > 0.0 else 1.0  # both underflowed: the cap is what binds
    denominator = 1.0 + beta_last - beta_first / (1.0 + beta_first) * ratio
    return float(eta(first)) / denominator if denominator > 0.0 else inf


def c_limit(steps: DiminishingSteps, K: int) -> float:
    r"""The supremum of g over all k > K, which falls to 0 as K grows.

    Branch and bound on :func:`c_condition`: exact up to a relative 1e-9, from above.
    """
    least, horizon = K + 1, steps.schedules.eta.horizon
    best = c_condition(steps, least)
    heap = [(-c_condition(steps, least, inf), least, inf)]
    while heap and best < inf:
        upper, first, last = heappop(heap)
        if -upper <= best * (1.0 + TOLERANCE):
            return -upper if -upper > best else best
        if last - first <= 1:
            continue  # both ends are known
        if last == inf:
            middle = 2 * first + int(horizon) + 2
        else:  # halfway in log(1 + k / h), on which the schedules depend
            halfway = sqrt(horizon + first) * sqrt(horizon + last) - horizon
            middle = min(max(int(halfway), first + 1), int(last) - 1)
        best = max(best, c_condition(steps, middle))
        for start, end in ((first, middle), (middle, last)):
            heappush(heap, (-c_condition(steps, start, end), start, end))
    return best


def smallest_index(holds: Callable[[int], bool], what: str) -> int:
    """The smallest K >= -1 with ``holds(K)``, which must then hold for every larger K too."""
    fails, found = -2, -1
    while not holds(found):
        fails, found = found, 2 * found + 3
        if found > 10**300:  # larger ones come near the end of the range of float64
            raise ValueError(f"{what} holds from no K below 10^300 on, for these schedules")
    while found - fails > 1:
        middle = (fails + found) // 2
        fails, found = (fails, middle) if holds(middle) else (middle, found)
    return found


@dataclass(frozen=True)
class ConvexDiminishing(DiminishingSteps):
    """Theorem 6: the gap of the weighted average is O(1 / S_k) almost surely."""

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
        """
        conditions.real("Theorem 6", NON_NEGATIVE, dist0_sq=dist0_sq, gap0=gap0)
        needed = "its condition on c from k = 0 for a finite bound"
        conditions.require("Theorem 6", self.K == -1, needed, K=self.K)
        last = conditions.steps("Theorem 6", k, least=1, most=1e7).astype(np.int64)
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


@result(
    "Theorem 6", "F(weighted mean of theta_1..theta_k) - F* = O(1/S_k) almost surely, "
    "S_k = sum of eta_m gamma_max,m",
    SMOOTH, CONVEX, NOISE, "Assumption 5", f"c >= sup over k > K of {RATIO}",
    K="from where on c must meet the condition, >= -1; None: the smallest.",
)  # fmt: skip
def convex_diminishing(
    rule: str, *, L: float, schedules: Schedules, c: float, omega: float | None = None,
    sigma2: float = 0.0, K: int | None = None,
) -> ConvexDiminishing:  # fmt: skip
    r"""Conditions and sums of exact convergence for convex objectives (Theorem 6).

    .. math:: F(\bar\theta^{\rm w}_k) - F(\theta^\star) = O(1/S_k)\ \text{a.s.},\quad
              \bar\theta^{\rm w}_k = \frac{\sum_{m=1}^k\eta_m\gamma_{\min,m}\theta_m}
              {\sum_{m=1}^k\eta_m\gamma_{\min,m}},\quad S_k = \sum_{m=1}^k\eta_m\gamma_{\max,m}

    >>> laws = Schedules.power_laws(0.5, 0.4, 0.9, 1.1, 0.02, 0.3)
    >>> promise = convex_diminishing("polyak", L=42.0, schedules=laws, c=0.75)
    >>> promise.K, round(promise.S(100), 4)
    (-1, 0.9965)

    Reference: Zhang, Shi and Gu, Theorem 6 (label convex_as_dec), Appendix C.
    """
    check_schedules("Theorem 6", schedules)
    steps = DiminishingSteps(rule, L, schedules, c, omega)
    if K is None:  # it exists, because g goes to 0
        what = f"Theorem 6's condition on c = {c:g}"
        K = smallest_index(lambda K: c_limit(steps, K) <= c, what)
    else:
        K = int(conditions.steps("Theorem 6", np.asarray(K) + 1, least=0)) - 1
    limit = c_limit(steps, K)
    needed = f"c >= sup over k > K of {RATIO}"
    conditions.require("Theorem 6", limit <= c, needed, c=c, sup=limit, K=K)
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


class Lyapunov(NamedTuple):
    """Coefficients C_k, D_k and E_k of the recursion in the proof of Theorem 7."""

    C: Any
    D: Any
    E: Any


@dataclass(frozen=True)
class NonConvexDiminishing(DiminishingSteps):
    """Theorem 7: min over 1 <= m <= k of ||grad F||^2 is O(1 / S_k) almost surely."""

    rho: float
    delta: float

    def coefficients(self, k: Any) -> Lyapunov:
        r"""The coefficients of the recursion in the proof.

        .. math:: E[W_{k+1}\mid\mathcal F_k] + D_k\|\nabla F(\theta_k)\|^2
                  \le (1+\beta_k)W_k + E_k\delta,\qquad
                  W_k = F(\theta_k)-F^\star + C_{k-1}\|\theta_k-\theta_{k-1}\|^2

        C_k is infinite where its denominator is not positive, and D_k is then minus infinity.
        """
        k = conditions.steps("Theorem 7", k, least=0)
        eta, beta, cap = (law(k) for law in self.schedules)
        step, spread = eta * cap, eta * (cap - self.gamma_min(k)) / 2.0
        denominator = 1.0 + beta * (1.0 - beta - step)
        safe = np.where(denominator > 0.0, denominator, 1.0)
        C = self.L * beta / 2.0 * (1.0 + beta + step) / safe
        C = np.where(denominator > 0.0, C, np.inf)
        curvature = (self.L / 2.0 + C) * (step + beta) * step
        D = step - (1.0 + self.rho) * spread - curvature * self.rho
        return Lyapunov(C, D, spread + curvature)

    @property
    def K(self) -> int:
        """Smallest K >= -1 with D_k > 0 for all k > K.

        The value at k = K + 1 decides, because D_k / (eta_k gamma_max,k) increases.
        """
        return smallest_index(
            lambda K: bool(self.coefficients(float(K + 1)).D > 0.0), "D_k > 0 of Theorem 7"
        )

    def bound(self, k: Any, *, gap0: float) -> Any:
        r"""Bound on :math:`\min_{1\le m\le k}E\|\nabla F(\theta_m)\|^2`, for K = -1 only.

        The theorem says O(1 / S_k); this is the constant that its proof carries,

        .. math:: \Big(F(\theta_0)-F^\star+\delta\sum_{j\le k}\frac{E_j}{P_{j+1}}\Big)\Big/
                  \sum_{j=1}^k\frac{D_j}{P_{j+1}},\qquad P_{j+1}=\prod_{i\le j}(1+\beta_i)
        """
        conditions.real("Theorem 7", NON_NEGATIVE, gap0=gap0)
        needed = "D_k > 0 from k = 0 for a finite bound"
        conditions.require("Theorem 7", self.K == -1, needed, K=self.K)
        last = conditions.steps("Theorem 7", k, least=1, most=1e7).astype(np.int64)
        j = np.arange(last.max() + 1)
        _, D, E = self.coefficients(j)
        path = almost_supermartingale(gap0, self.schedules.beta(j), E * self.delta)
        weights = np.where(j > 0, D / path.growth, 0.0)
        return conditions.like(k, path.budget[last] / np.cumsum(weights)[last])


@result(
    "Theorem 7", "min over 1 <= m <= k of ||grad F(theta_m)||^2 = O(1/S_k) almost surely",
    SMOOTH, GROWTH, "Assumption 5",
)  # fmt: skip
def nonconvex_diminishing(
    rule: str, *, L: float, rho: float, delta: float, schedules: Schedules, c: float,
    omega: float | None = None,
) -> NonConvexDiminishing:  # fmt: skip
    r"""Conditions and sums of exact convergence for non-convex objectives (Theorem 7).

    .. math:: \min_{1\le m\le k}\|\nabla F(\theta_m)\|^2 = O(1/S_k)\ \text{a.s.},\qquad
              S_k = \sum_{m=1}^k\eta_m\gamma_{\max,m}

    >>> laws = Schedules.power_laws(0.5, 0.4, 0.1, 1.1, 0.1, 0.3)
    >>> nonconvex_diminishing("polyak", L=1.0, rho=1.0, delta=0.5, schedules=laws, c=1.0).K
    -1

    Reference: Zhang, Shi and Gu, Theorem 7 (label nonconvex_as_dec), Appendix C.
    """
    check_schedules("Theorem 7", schedules)
    return NonConvexDiminishing(rule, L, schedules, c, omega, rho, delta)


@result(
    "Theorem 8", "the gap of Theorem 6 is o(1 / sum of eta_m gamma_min,m) almost surely",
    "those of Theorem 6",
)  # fmt: skip
def convex_tail_bound(
    tail_gap: Array, tail_gradient: Array, *, head: Array, total: Array, diameter: Array, L: float
) -> Array:
    r"""Upper bound on :math:`W_k (F(\bar\theta^{\rm w}_k)-F^\star)` for n < k (Theorem 8).

    .. math:: W_k\big(F(y_{n,k})-F^\star\big) + M W_n\|\nabla F(y_{n,k})\|
              + \frac{LM^2W_n^2}{2W_k},\qquad W_k = \sum_{m=1}^k\eta_m\gamma_{\min,m}

    with the weighted average :math:`y_{n,k}` of theta_{n+1} .. theta_k and
    :math:`M \ge \|\bar\theta^{\rm w}_n-y_{n,k}\|`. The right side goes to the tail of a convergent
    sum, so that the gap is o(1 / W_k) almost surely, under the conditions of Theorem 6. ``head`` is
    W_n, ``total`` W_k, ``diameter`` M.

    >>> half, one = np.array(0.5), np.array(1.0)
    >>> convex_tail_bound(half, one, head=one, total=4.0 * one, diameter=2.0 * one, L=1.0)
    np.float64(4.5)

    Reference: Zhang, Shi and Gu, Theorem 8 (label convex_as_dec_little_o), Appendix C.
    """
    gap, slope, head, total, diameter = conditions.finite_arrays(
        "Theorem 8", nonnegative=True, tail_gap=tail_gap, tail_gradient=tail_gradient, head=head,
        total=total, diameter=diameter,
    )  # fmt: skip
    conditions.require("Theorem 8", bool((total > 0.0).all()), "W_k > 0", W_k=float(total.min()))
    bound: Array = total * gap + diameter * head * slope + L * diameter**2 * head**2 / (2.0 * total)
    return bound


@result("Theorem 9", "the minimum of Theorem 7 is o(1/S_k) almost surely", "those of Theorem 7")
def nonconvex_tail_bound(tail_sum: Array, least: Array, *, head: Array) -> Array:
    r"""Upper bound on :math:`S_k\min_{1\le j\le k}\|\nabla F(\theta_j)\|^2` for n <= k (Theorem 9).

    .. math:: \sum_{m=n}^{k}\eta_m\gamma_{\max,m}\|\nabla F(\theta_m)\|^2
              + \min_{1\le j\le k}\|\nabla F(\theta_j)\|^2\,S_n

    Holds on every run. The sum is the tail of a convergent one and the minimum goes to 0, so that
    it is o(1 / S_k) almost surely, under the conditions of Theorem 7. ``head`` is S_n.

    >>> nonconvex_tail_bound(np.float64(2.0), np.float64(0.5), head=3.0)
    np.float64(3.5)

    Reference: Zhang, Shi and Gu, Theorem 9 (label nonconvex_as_dec_little_o), Appendix C.
    """
    tail, smallest, head = conditions.finite_arrays(
        "Theorem 9", nonnegative=True, tail_sum=tail_sum, least=least, head=head
    )
    bound: Array = tail + smallest * head
    return bound
