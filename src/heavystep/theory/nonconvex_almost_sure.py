"""Theorem 5: almost sure convergence for non-convex objectives under strong growth."""

from heavystep.theory import conditions
from heavystep.theory.arguments import C_NONCONVEX, documented
from heavystep.theory.nonconvex import nonconvex
from heavystep.theory.summable import SummableSequence

THEOREM = "Theorem 5"


@documented(
    rho="strong growth factor, > 0.",
    c=C_NONCONVEX,
    gamma_max="cap of the step, below :func:`nonconvex_step_limit`.",
)
def nonconvex_almost_sure(
    rule: str,
    *,
    L: float,
    rho: float,
    beta: float,
    c: float,
    gamma_max: float,
    omega: float | None = None,
    gap0: float,
) -> SummableSequence:
    r"""The sum that carries almost sure convergence under strong growth (Theorem 5).

    With delta = 0, :math:`\|\nabla F(\theta_k)\|\to0` and
    :math:`\min_{m<k}\|\nabla F(\theta_m)\|^2 = O(1/k)` almost surely, because

    .. math:: E\sum_{m\ge0}\|\nabla F(\theta_m)\|^2 \le
              \frac{F(\theta_0)-F(\theta^\star)}{(1+\beta)s_1}

    Raises:
        ValueError: a condition of Theorem 3 fails.

    >>> nonconvex_almost_sure("polyak", L=2.0, rho=1.0, beta=0.0, c=0.25, gamma_max=0.25,
    ...                       gap0=1.0).expected_sum
    8.0

    Reference: Zhang, Shi and Gu, Theorem 5 (label nonconvex_as), Appendix B.
    """
    with conditions.told_by(THEOREM):
        promise = nonconvex(
            rule,
            L=L,
            rho=rho,
            delta=0.0,
            beta=beta,
            c=c,
            gamma_max=gamma_max,
            omega=omega,
            gap0=gap0,
        )
    return SummableSequence(THEOREM, promise.gap0 / promise.scale)
