"""Theorem 4: almost sure convergence for convex objectives under interpolation."""

from dataclasses import dataclass

from heavystep.theory import conditions
from heavystep.theory.arguments import c_from, documented
from heavystep.theory.convex import convex
from heavystep.theory.summable import SummableSequence

THEOREM = "Theorem 4"


@dataclass(frozen=True)
class ConvexAlmostSure(SummableSequence):
    """What Theorem 4's proof sums: the gaps F(theta_m) - F*, and the sampled gaps."""

    sampled_sum: float
    r"""On every run :math:`\sum_m \gamma_m (f(\theta_m;x_m) - f^\star(x_m))` is at most this."""


@documented(c=c_from("> 1/2"))
def convex_almost_sure(
    rule: str,
    *,
    L: float,
    beta: float,
    c: float,
    gamma_max: float,
    omega: float | None = None,
    dist0_sq: float,
) -> ConvexAlmostSure:
    r"""Sums that carry almost sure convergence under interpolation (Theorem 4).

    With sigma^2 = 0, :math:`F(\theta_k)\to F^\star` and
    :math:`F(\bar\theta_k) - F^\star = O(1/k)` almost surely, because

    .. math:: E\sum_{m\ge0}\big(F(\theta_m) - F^\star\big) \le
              \frac{\|\theta_0-\theta^\star\|^2}{(1+\beta)(2-1/c)\gamma_{\min}} = A

    and, summing the recursion of Theorem 2 before taking expectations, on every run
    :math:`(1+\beta)(2-1/c)\sum_m \gamma_m (f_m - f^\star(x_m)) \le \|\theta_0-\theta^\star\|^2`.

    Raises:
        ValueError: a condition of Theorem 2 fails.

    >>> sums = convex_almost_sure("polyak", L=2.0, beta=0.0, c=1.0, gamma_max=0.25, dist0_sq=4.0)
    >>> sums.expected_sum, sums.sampled_sum, sums.bound(64, probability=0.5)
    (32.0, 4.0, 1.0)

    Reference: Zhang, Shi and Gu, Theorem 4 (label convex_as), Appendix B.
    """
    with conditions.told_by(THEOREM):
        promise = convex(
            rule, L=L, beta=beta, c=c, gamma_max=gamma_max, omega=omega, dist0_sq=dist0_sq
        )
    return ConvexAlmostSure(THEOREM, promise.A, promise.A * promise.gamma_min)
