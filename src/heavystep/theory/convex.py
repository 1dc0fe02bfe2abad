"""Theorems 2 and 4: convex objectives, the average iterate and almost sure convergence."""

from dataclasses import dataclass
from typing import Any

from heavystep import validation
from heavystep.arrays import Array
from heavystep.theory import conditions
from heavystep.theory.arguments import c_from, documented
from heavystep.theory.decoupling import discounted_sums
from heavystep.theory.steps import check, step_bounds


@dataclass(frozen=True)
class SummableSequence:
    r"""A sum that is finite almost surely, with a bound for all k at once.

    For nonnegative :math:`X_m` with :math:`E\sum_m X_m \le` ``expected_sum`` Markov's inequality
    gives :math:`\sum_m X_m \le` ``expected_sum`` / p, except with probability p.
    """

    result: str
    expected_sum: float
    """Bound on the expectation of the sum over all m."""

    def bound(self, k: Any, probability: float) -> Any:
        """Bound on the mean of the first ``k`` terms.

        It holds for all k at once, except with the given probability. The quantity of the theorem
        is at most that mean: the gap of the average iterate (convex), the least squared gradient
        norm (non-convex).
        """
        conditions.real(self.result, validation.Interval(0.0, 1.0), probability=probability)
        steps = conditions.steps(self.result, k, least=1)
        return conditions.like(k, self.expected_sum / probability / steps)


THEOREM = "Theorem 2"


@dataclass(frozen=True)
class Convex:
    r"""What Theorem 2 promises.

    .. math:: E[F(\bar\theta_k) - F(\theta^\star)] \le \frac Ak + M\,\frac{k+1}k\,\sigma^2
    """

    A: float
    M: float
    gamma_min: float
    sigma2: float

    def bound(self, k: Any) -> Any:
        """Bound on the expected gap of the mean of theta_0 .. theta_{k-1}; k >= 1."""
        steps = conditions.steps(THEOREM, k, least=1)
        return conditions.like(k, self.A / steps + self.M * self.sigma2 * (steps + 1.0) / steps)


@documented(c=c_from("> 1/2"))
def convex(
    rule: str, *, L: float, beta: float, c: float, gamma_max: float, omega: float | None = None,
    sigma2: float = 0.0, dist0_sq: float,
) -> Convex:  # fmt: skip
    r"""Constants of the rate for convex objectives (Theorem 2).

    .. math:: A = \frac{\|\theta_0-\theta^\star\|^2}{(1+\beta)(2-1/c)\gamma_{\min}},\qquad
              M = \frac{1}{1-\beta^2}\Big(\frac{2\gamma_{\max}}{\gamma_{\min}(2-1/c)} - 1\Big)

    Assumes convex L-smooth samples, finite sigma^2, c > 1/2. Strength: upper. With beta = 0
    and c = 1 these are the constants of SPS, ||theta_0 - theta*||^2 / gamma_min and
    2 gamma_max / gamma_min - 1.

    >>> convex("polyak", L=2.0, beta=0.0, c=1.0, gamma_max=0.25, dist0_sq=4.0).bound(8)
    4.0

    Reference: Zhang, Shi and Gu, Theorem 2 (label convex_general), Appendix B.
    """
    check(THEOREM, rule, L=L, beta=beta, c=c, gamma_max=gamma_max, omega=omega)
    conditions.real(THEOREM, validation.NON_NEGATIVE, sigma2=sigma2, dist0_sq=dist0_sq)
    conditions.require(THEOREM, c > 0.5, "c > 1/2", c=c)
    gamma_min, _ = step_bounds(rule, L=L, beta=beta, c=c, gamma_max=gamma_max, omega=omega)
    progress = (2.0 - 1.0 / c) * gamma_min
    A = dist0_sq / ((1.0 + beta) * progress)
    M = (2.0 * gamma_max / progress - 1.0) / (1.0 - beta**2)
    conditions.finite(THEOREM, A=A, M=M, noise=2.0 * M * sigma2)
    return Convex(A=A, M=M, gamma_min=gamma_min, sigma2=sigma2)


def distance_recursion(
    dist_sq: Array, steps: Array, gap: Array, optimal_gap: Array, *, beta: float, c: float
) -> Array:
    r"""Upper bound on :math:`\|\theta_{k+1}-\theta^\star\|^2` at every k, on every run.

    .. math:: \|\theta_k-\theta^\star\|^2
              - \Big(2-\frac1c\Big)\sum_{m=0}^k\beta^{k-m}\gamma_m\big(f_m - f^\star(x_m)\big)
              + 2\sum_{m=0}^k\beta^{k-m}\gamma_m\big(f(\theta^\star;x_m)-f^\star(x_m)\big)

    Theorems 1, 2 and 4 follow from it by summation. It needs convexity and Lemma 1 only. Under
    interpolation and c >= 1/2 the distance therefore never increases.

    Args:
        dist_sq: (..., K) squared distances of theta_0 .. theta_{K-1}.
        steps: (..., K) gamma_k.
        gap: (..., K) f(theta_k; x_k) - f*(x_k).
        optimal_gap: (..., K) f(theta*; x_k) - f*(x_k).
        beta: constant momentum, in [0, 1).
        c: > 0.

    Reference: Zhang, Shi and Gu, first display of the proof of Theorem 2, Appendix B.
    """
    conditions.real(THEOREM, validation.UNIT, beta=beta)
    conditions.real(THEOREM, validation.POSITIVE, c=c)
    progress = discounted_sums(beta, steps * gap, axis=-1)
    noise = discounted_sums(beta, steps * optimal_gap, axis=-1)
    recursion: Array = dist_sq - (2.0 - 1.0 / c) * progress + 2.0 * noise
    return recursion


@dataclass(frozen=True)
class ConvexAlmostSure(SummableSequence):
    """What Theorem 4's proof sums: the gaps F(theta_m) - F*, and the sampled gaps."""

    sampled_sum: float
    r"""On every run :math:`\sum_m \gamma_m (f(\theta_m;x_m) - f^\star(x_m))` is at most this."""


@documented(c=c_from("> 1/2"))
def convex_almost_sure(
    rule: str, *, L: float, beta: float, c: float, gamma_max: float, omega: float | None = None,
    dist0_sq: float,
) -> ConvexAlmostSure:  # fmt: skip
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
    with conditions.told_by("Theorem 4"):
        promise = convex(
            rule, L=L, beta=beta, c=c, gamma_max=gamma_max, omega=omega, dist0_sq=dist0_sq
        )
    return ConvexAlmostSure("Theorem 4", promise.A, promise.A * promise.gamma_min)
