"""Theorem 2: the average iterate for convex objectives, and the recursion behind its bound."""

from dataclasses import dataclass
from typing import Any

from heavystep import validation
from heavystep.arrays import Array
from heavystep.theory import conditions
from heavystep.theory.arguments import c_from, documented
from heavystep.theory.discounted import discounted_sums
from heavystep.theory.step_bounds import check, step_bounds

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
    rule: str,
    *,
    L: float,
    beta: float,
    c: float,
    gamma_max: float,
    omega: float | None = None,
    sigma2: float = 0.0,
    dist0_sq: float,
) -> Convex:
    r"""Constants of the rate for convex objectives (Theorem 2).

    .. math:: A = \frac{\|\theta_0-\theta^\star\|^2}{(1+\beta)(2-1/c)\gamma_{\min}},\qquad
              M = \frac{1}{1-\beta^2}\Big(\frac{2\gamma_{\max}}{\gamma_{\min}(2-1/c)} - 1\Big)

    Assumes convex L-smooth samples, finite sigma^2, c > 1/2. Strength: upper. With beta = 0
    and c = 1 these are the constants of SPS, ||theta_0 - theta*||^2 / gamma_min and
    2 gamma_max / gamma_min - 1.

    Raises:
        ValueError: a condition fails; names the theorem, the inequality and the numbers.

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
