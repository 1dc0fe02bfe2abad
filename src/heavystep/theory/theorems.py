"""Theorems 1 to 5: constant momentum and cap, for convex and non-convex objectives."""

from dataclasses import dataclass
from math import hypot, sqrt
from typing import Any

import numpy as np

from heavystep.arrays import Array
from heavystep.rules import momentum_factor
from heavystep.theory import conditions
from heavystep.theory.lemmas import discounted_sums, step_bounds
from heavystep.theory.registry import (
    C_NONCONVEX,
    CONVEX,
    GROWTH,
    NOISE,
    ON_C,
    SMOOTH,
    c_from,
    result,
)
from heavystep.theory.rules import RULES
from heavystep.validation import NON_NEGATIVE, OPEN_UNIT, POSITIVE

_BELOW = "cap of the step, below :func:`nonconvex_step_limit`."


@dataclass(frozen=True)
class StronglyConvex:
    r"""Theorem 1: :math:`E\|\theta_k - \theta^\star\|^2 \le B r^k + R`."""

    rate: float
    """r, the larger root of :math:`r^2 - (1 - x) r + x\\beta`, x = mu gamma_min."""
    contraction: float
    """1 - r, accurate also where r rounds to 1."""
    other_root: float
    """The smaller root r_-, which enters B."""
    residual: float
    """R = 2 gamma_max sigma^2 / (mu gamma_min)."""
    gamma_min: float
    B: float | None
    """None if ``dist0_sq`` was not given."""

    def bound(self, k: Any) -> Any:
        """Bound on the expected squared distance after ``k`` steps, a number or an array."""
        if self.B is None:
            raise ValueError("Theorem 1: the bound needs dist0_sq = ||theta_0 - theta*||^2")
        steps = conditions.steps("Theorem 1", k, least=0)
        decay = np.exp(steps * np.log1p(-self.contraction))
        return conditions.like(k, self.B * decay + self.residual)


@result(
    "Theorem 1", "E ||theta_k - theta*||^2 <= B r^k + 2 gamma_max sigma^2 / (mu gamma_min)",
    SMOOTH, CONVEX, NOISE, "F mu-strongly convex", "c >= 1/2",
    c=c_from(">= 1/2"),
    dist0_sq="||theta_0 - theta*||^2; without it there is no B.",
    dist1_sq=("E ||theta_1 - theta*||^2 if known; sharpens B.", NON_NEGATIVE),
)  # fmt: skip
def strongly_convex(
    rule: str, *, L: float, mu: float, beta: float, c: float, gamma_max: float,
    omega: float | None = None, sigma2: float = 0.0, dist0_sq: float | None = None,
    dist1_sq: float | None = None,
) -> StronglyConvex:  # fmt: skip
    r"""Constants of the linear rate for strongly convex objectives (Theorem 1).

    .. math:: E\|\theta_k - \theta^\star\|^2 \le B r^k
              + \frac{2\gamma_{\max}}{\mu\gamma_{\min}}\sigma^2, \qquad
              r = \tfrac12\Big(1 - x + \sqrt{(1-x)^2 - 4x\beta}\Big),\quad x = \mu\gamma_{\min}

    As c >= 1/2, :math:`x \le (1-\sqrt\beta)^2/2` and r is real. With beta = 0 it is the rate of
    SPS, r = 1 - mu gamma_min and B = ||theta_0 - theta*||^2 - R.

    The theorem leaves B open; the proof gives it from :math:`e_k = E\|\theta_k-\theta^\star\|^2
    - R`: :math:`B = \max\{e_0, (e_1 - r_- e_0)/(r - r_-)\}`, and 0 if :math:`e_0 \le 0`. Where
    e_1 is not known the recursion bounds it by :math:`(1-x)e_0`.

    >>> promise = strongly_convex("polyak", L=2.0, mu=0.5, beta=0.0, c=0.5, gamma_max=1.0,
    ...                           dist0_sq=4.0)
    >>> promise.rate, promise.bound(2)
    (0.875, 3.0625)

    Reference: Zhang, Shi and Gu, Theorem 1 (label strongly_convex_general), Appendix B.
    """
    conditions.require("Theorem 1", mu <= L, "mu <= L", mu=mu, L=L)
    conditions.require("Theorem 1", c >= 0.5, "c >= 1/2", c=c)
    gamma_min, _ = step_bounds(rule, L=L, beta=beta, c=c, gamma_max=gamma_max, omega=omega)
    x = mu * gamma_min
    larger = (1.0 - x + sqrt((1.0 - x) ** 2 - 4.0 * x * beta)) / 2.0
    smaller = x * beta / larger  # the roots multiply to x beta
    contraction = x * (1.0 + beta) / (1.0 - smaller)  # (1 - r)(1 - r_-) = x (1 + beta)
    least = {"contraction": contraction}
    conditions.require("Theorem 1", contraction > 0.0, "1 - r > 0 in float64", **least)
    residual = 2.0 * gamma_max * sigma2 / x
    conditions.finite("Theorem 1", residual=residual)
    B = None
    if dist0_sq is not None:  # the last display of the proof: e_k <= a r^k + b r_-^k, a + b = e_0
        excess0 = dist0_sq - residual
        excess1 = (larger + smaller) * excess0
        if dist1_sq is not None:
            excess1 = min(excess1, dist1_sq - residual)
        B = max(excess0, (excess1 - smaller * excess0) / (larger - smaller))
        B = B if excess0 > 0.0 else 0.0  # once e_k <= 0 it stays so
    return StronglyConvex(1.0 - contraction, contraction, smaller, residual, gamma_min, B)


@dataclass(frozen=True)
class Convex:
    r"""Theorem 2: :math:`E[F(\bar\theta_k) - F(\theta^\star)] \le A/k + M \sigma^2 (k+1)/k`."""

    A: float
    M: float
    gamma_min: float
    sigma2: float

    def bound(self, k: Any) -> Any:
        """Bound on the expected gap of the mean of theta_0 .. theta_{k-1}; k >= 1."""
        steps = conditions.steps("Theorem 2", k, least=1)
        return conditions.like(k, self.A / steps + self.M * self.sigma2 * (steps + 1.0) / steps)


@result(
    "Theorem 2", "E F(mean of theta_0..theta_{k-1}) - F* <= A/k + M (k+1)/k sigma^2",
    SMOOTH, CONVEX, NOISE, "c > 1/2", c=c_from("> 1/2"),
)  # fmt: skip
def convex(
    rule: str, *, L: float, beta: float, c: float, gamma_max: float, omega: float | None = None,
    sigma2: float = 0.0, dist0_sq: float,
) -> Convex:  # fmt: skip
    r"""Constants of the rate for convex objectives (Theorem 2).

    .. math:: A = \frac{\|\theta_0-\theta^\star\|^2}{(1+\beta)(2-1/c)\gamma_{\min}},\qquad
              M = \frac{1}{1-\beta^2}\Big(\frac{2\gamma_{\max}}{\gamma_{\min}(2-1/c)} - 1\Big)

    With beta = 0 and c = 1 these are the constants of SPS, ||theta_0 - theta*||^2 / gamma_min and
    2 gamma_max / gamma_min - 1.

    >>> convex("polyak", L=2.0, beta=0.0, c=1.0, gamma_max=0.25, dist0_sq=4.0).bound(8)
    4.0

    Reference: Zhang, Shi and Gu, Theorem 2 (label convex_general), Appendix B.
    """
    conditions.require("Theorem 2", c > 0.5, "c > 1/2", c=c)
    gamma_min, _ = step_bounds(rule, L=L, beta=beta, c=c, gamma_max=gamma_max, omega=omega)
    progress = (2.0 - 1.0 / c) * gamma_min
    A = dist0_sq / ((1.0 + beta) * progress)
    M = (2.0 * gamma_max / progress - 1.0) / (1.0 - beta**2)
    conditions.finite("Theorem 2", A=A, M=M, noise=2.0 * M * sigma2)
    return Convex(A=A, M=M, gamma_min=gamma_min, sigma2=sigma2)


@result("Theorem 2", c=("> 0.", POSITIVE))
def distance_recursion(
    dist_sq: Array, steps: Array, gap: Array, optimal_gap: Array, *, beta: float, c: float
) -> Array:
    r"""Upper bound on :math:`\|\theta_{k+1}-\theta^\star\|^2` at every k, on every run.

    .. math:: \|\theta_k-\theta^\star\|^2
              - \Big(2-\frac1c\Big)\sum_{m=0}^k\beta^{k-m}\gamma_m\big(f_m - f^\star(x_m)\big)
              + 2\sum_{m=0}^k\beta^{k-m}\gamma_m\big(f(\theta^\star;x_m)-f^\star(x_m)\big)

    Theorems 1, 2 and 4 follow from it by summation. Arrays are (..., K): squared distances, steps,
    and f(.; x_k) - f*(x_k) at theta_k and at theta*.

    Reference: Zhang, Shi and Gu, first display of the proof of Theorem 2, Appendix B.
    """
    progress = discounted_sums(beta, steps * gap, axis=-1)
    noise = discounted_sums(beta, steps * optimal_gap, axis=-1)
    recursion: Array = dist_sq - (2.0 - 1.0 / c) * progress + 2.0 * noise
    return recursion


@dataclass(frozen=True)
class NonConvex:
    r"""Theorem 3 on :math:`\min_{m<k} E\|\nabla F(\theta_m)\|^2`."""

    s1: float
    s2: float
    q: float
    gamma_min: float
    gamma_max_limit: float
    """The limit of gamma_max, which must stay below it."""
    scale: float
    """(1 + beta) s1, by which both terms of the bound are divided."""
    gap0: float
    delta: float

    def bound(self, k: Any) -> Any:
        """Bound on the least expected squared gradient norm of theta_0 .. theta_{k-1}; k >= 1."""
        steps = conditions.steps("Theorem 3", k, least=1)
        noise = self.s2 * self.delta / self.scale
        return conditions.like(k, self.gap0 / self.scale / steps + noise * (steps + 1.0) / steps)


@result("Theorem 3", c=C_NONCONVEX)
def nonconvex_step_limit(
    rule: str, *, L: float, rho: float, beta: float, c: float, omega: float | None = None
) -> float:
    r"""Limit of gamma_max in Theorem 3, which must stay below it.

    .. math:: \frac{(1-\sqrt\beta)^2}{4\rho L}
              \Big(1-\rho+\sqrt{(1-\rho)^2+2\rho(1+\rho)\kappa}\Big),\qquad
              \kappa = \tfrac1c\ \text{(Polyak)},\quad \kappa = 4\omega(1-c)\ \text{(Armijo)}

    >>> nonconvex_step_limit("polyak", L=2.0, rho=1.0, beta=0.0, c=0.25)
    0.5

    Reference: Zhang, Shi and Gu, Theorem 3 (label nonconvex_general), Section 3.
    """
    known = RULES[rule]
    admissible = known.admissible_c(omega, rho)
    numbers = {"c": c, "omega": omega, "rho": rho, "least c": admissible.low}
    conditions.require("Theorem 3", float(c) in admissible, known.inequality, **numbers)
    kappa = 2.0 * known.unit_step(c, omega)
    # (1 - rho) + sqrt((1 - rho)^2 + t), written without cancellation where rho > 1.
    t = 2.0 * rho * (1.0 + rho) * kappa
    root = hypot(1.0 - rho, sqrt(t))
    bracket = 1.0 - rho + root if rho <= 1.0 else t / (rho - 1.0 + root)
    steepness = 4.0 * rho * L
    conditions.require("Theorem 3", steepness > 0.0, "rho L > 0 in float64", rho=rho, L=L)
    limit = float(momentum_factor(beta) / steepness * bracket)
    conditions.finite("Theorem 3", t=t, limit=limit)
    conditions.require("Theorem 3", limit > 0.0, "limit > 0 in float64", limit=limit)
    return limit


@result(
    "Theorem 3", "min over m < k of E ||grad F(theta_m)||^2 <= gap0 / (k (1+beta) s1) "
    "+ (k+1)/k s2 delta / ((1+beta) s1)",
    SMOOTH, GROWTH, ON_C, "gamma_max < nonconvex_step_limit(...)",
    c=C_NONCONVEX, gamma_max=_BELOW,
)  # fmt: skip
def nonconvex(
    rule: str, *, L: float, rho: float, delta: float, beta: float, c: float, gamma_max: float,
    omega: float | None = None, gap0: float,
) -> NonConvex:  # fmt: skip
    r"""Constants of the rate for non-convex objectives (Theorem 3).

    .. math:: \min_{m<k} E\|\nabla F(\theta_m)\|^2 \le
              \frac{F(\theta_0)-F(\theta^\star)}{k(1+\beta)s_1}
              + \frac{k+1}k\,\frac{s_2\delta}{(1+\beta)s_1}

    .. math:: q = \frac{L\gamma_{\max}^2}{(1-\sqrt\beta)^2} + \frac{\gamma_{\max}-\gamma_{\min}}2,
              \quad s_1 = \frac{\gamma_{\max}+\gamma_{\min}}2 - \rho q,\quad s_2 = \frac q{1-\beta}

    Without noise (delta = 0) the second term vanishes.

    >>> nonconvex("polyak", L=2.0, rho=1.0, delta=0.0, beta=0.0, c=0.25, gamma_max=0.25,
    ...           gap0=1.0).bound(4)
    2.0

    Reference: Zhang, Shi and Gu, Theorem 3 (label nonconvex_general), Appendix B.
    """
    limit = nonconvex_step_limit(rule, L=L, rho=rho, beta=beta, c=c, omega=omega)
    caps = {"gamma_max": gamma_max, "limit": limit}
    conditions.require("Theorem 3", gamma_max < limit, "gamma_max < limit", **caps)
    gamma_min, _ = step_bounds(rule, L=L, beta=beta, c=c, gamma_max=gamma_max, omega=omega)
    q = L * gamma_max * gamma_max / momentum_factor(beta) + (gamma_max - gamma_min) / 2.0
    s1 = (gamma_max + gamma_min) / 2.0 - rho * q
    s2 = q / (1.0 - beta)
    scale = (1.0 + beta) * s1
    # With gamma_max just below its limit s1 > 0 in exact arithmetic, but not after rounding.
    conditions.require("Theorem 3", s1 > 0.0, "s1 > 0 in float64", s1=s1, gamma_max=gamma_max)
    conditions.finite("Theorem 3", first=gap0 / scale, second=s2 * delta / scale)
    return NonConvex(s1, s2, q, gamma_min, limit, scale, gap0, delta)


@dataclass(frozen=True)
class SummableSequence:
    r"""A sum that is finite almost surely, with a bound for all k at once.

    For nonnegative :math:`X_m` with :math:`E\sum_m X_m \le` ``expected_sum`` Markov's inequality
    gives :math:`\sum_m X_m \le` ``expected_sum`` / p, except with probability p.
    """

    result: str
    expected_sum: float
    """Bound on the expectation of the sum over all m."""
    sampled_sum: float | None = None
    r"""On every run :math:`\sum_m \gamma_m (f(\theta_m;x_m) - f^\star(x_m))` is at most this."""

    def bound(self, k: Any, probability: float) -> Any:
        """Bound on the mean of the first ``k`` terms, for all k at once but with that probability.

        The gap of the average iterate (convex) and the least squared gradient norm (non-convex)
        are at most that mean.
        """
        conditions.real(self.result, OPEN_UNIT, probability=probability)
        steps = conditions.steps(self.result, k, least=1)
        return conditions.like(k, self.expected_sum / probability / steps)


@result(
    "Theorem 4", "sigma^2 = 0: F(theta_k) -> F* and F(mean) - F* = O(1/k) almost surely",
    SMOOTH, CONVEX, "sigma^2 = 0", "c > 1/2", c=c_from("> 1/2"),
)  # fmt: skip
def convex_almost_sure(
    rule: str, *, L: float, beta: float, c: float, gamma_max: float, omega: float | None = None,
    dist0_sq: float,
) -> SummableSequence:  # fmt: skip
    r"""Sums that carry almost sure convergence under interpolation (Theorem 4).

    With sigma^2 = 0, :math:`F(\theta_k)\to F^\star` and
    :math:`F(\bar\theta_k) - F^\star = O(1/k)` almost surely, because

    .. math:: E\sum_{m\ge0}\big(F(\theta_m) - F^\star\big) \le
              \frac{\|\theta_0-\theta^\star\|^2}{(1+\beta)(2-1/c)\gamma_{\min}} = A

    and, summing the recursion of Theorem 2 before taking expectations, on every run
    :math:`(1+\beta)(2-1/c)\sum_m \gamma_m (f_m - f^\star(x_m)) \le \|\theta_0-\theta^\star\|^2`.

    >>> sums = convex_almost_sure("polyak", L=2.0, beta=0.0, c=1.0, gamma_max=0.25, dist0_sq=4.0)
    >>> sums.expected_sum, sums.sampled_sum, sums.bound(64, probability=0.5)
    (32.0, 4.0, 1.0)

    Reference: Zhang, Shi and Gu, Theorem 4 (label convex_as), Appendix B.
    """
    promise = convex(rule, L=L, beta=beta, c=c, gamma_max=gamma_max, omega=omega, dist0_sq=dist0_sq)
    return SummableSequence("Theorem 4", promise.A, promise.A * promise.gamma_min)


@result(
    "Theorem 5", "delta = 0: ||grad F(theta_k)|| -> 0 and min over m < k of ||grad F||^2 = O(1/k) "
    "almost surely",
    SMOOTH, "E ||grad f||^2 <= rho ||grad F||^2", "those of Theorem 3",
    rho="strong growth factor, > 0.", c=C_NONCONVEX, gamma_max=_BELOW,
)  # fmt: skip
def nonconvex_almost_sure(
    rule: str, *, L: float, rho: float, beta: float, c: float, gamma_max: float,
    omega: float | None = None, gap0: float,
) -> SummableSequence:  # fmt: skip
    r"""The sum that carries almost sure convergence under strong growth (Theorem 5).

    With delta = 0, :math:`\|\nabla F(\theta_k)\|\to0` and
    :math:`\min_{m<k}\|\nabla F(\theta_m)\|^2 = O(1/k)` almost surely, because

    .. math:: E\sum_{m\ge0}\|\nabla F(\theta_m)\|^2 \le
              \frac{F(\theta_0)-F(\theta^\star)}{(1+\beta)s_1}

    >>> nonconvex_almost_sure("polyak", L=2.0, rho=1.0, beta=0.0, c=0.25, gamma_max=0.25,
    ...                       gap0=1.0).expected_sum
    8.0

    Reference: Zhang, Shi and Gu, Theorem 5 (label nonconvex_as), Appendix B.
    """
    promise = nonconvex(
        rule, L=L, rho=rho, delta=0.0, beta=beta, c=c, gamma_max=gamma_max, omega=omega, gap0=gap0
    )
    return SummableSequence("Theorem 5", promise.gap0 / promise.scale)
