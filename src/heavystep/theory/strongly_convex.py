"""Theorem 1: linear convergence of the last iterate for strongly convex objectives."""

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from heavystep import validation
from heavystep.theory import conditions
from heavystep.theory.arguments import c_from, documented
from heavystep.theory.steps import check, step_bounds

THEOREM = "Theorem 1"


@dataclass(frozen=True)
class StronglyConvex:
    r"""What Theorem 1 promises: :math:`E\|\theta_k - \theta^\star\|^2 \le B r^k + R`."""

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
    """Constant from e_0 and e_1; None if ``dist0_sq`` was not given."""

    def bound(self, k: Any) -> Any:
        """Bound on the expected squared distance after ``k`` steps, a number or an array."""
        if self.B is None:
            raise ValueError(f"{THEOREM}: the bound needs dist0_sq = ||theta_0 - theta*||^2")
        steps = conditions.steps(THEOREM, k, least=0)
        decay = np.exp(steps * np.log1p(-self.contraction))
        return conditions.like(k, self.B * decay + self.residual)


@documented(
    c=c_from(">= 1/2"),
    dist0_sq="||theta_0 - theta*||^2; without it there is no B.",
    dist1_sq="E ||theta_1 - theta*||^2 if known; sharpens B.",
)
def strongly_convex(
    rule: str, *, L: float, mu: float, beta: float, c: float, gamma_max: float,
    omega: float | None = None, sigma2: float = 0.0, dist0_sq: float | None = None,
    dist1_sq: float | None = None,
) -> StronglyConvex:  # fmt: skip
    r"""Constants of the linear rate for strongly convex objectives (Theorem 1).

    .. math:: E\|\theta_k - \theta^\star\|^2 \le B r^k
              + \frac{2\gamma_{\max}}{\mu\gamma_{\min}}\sigma^2, \qquad
              r = \tfrac12\Big(1 - x + \sqrt{(1-x)^2 - 4x\beta}\Big),\quad x = \mu\gamma_{\min}

    Assumes convex L-smooth samples, F mu-strongly convex, finite sigma^2, c >= 1/2. Then
    :math:`x \le (1-\sqrt\beta)^2/2`, so r is real. Strength: upper. With beta = 0 it is the
    rate of SPS, r = 1 - mu gamma_min and B = ||theta_0 - theta*||^2 - R.

    The theorem leaves B open; the proof gives it from :math:`e_k = E\|\theta_k-\theta^\star\|^2
    - R`: :math:`B = \max\{e_0, (e_1 - r_- e_0)/(r - r_-)\}`, and 0 if :math:`e_0 \le 0`. Where
    e_1 is not known the recursion bounds it by :math:`(1-x)e_0`.

    >>> promise = strongly_convex("polyak", L=2.0, mu=0.5, beta=0.0, c=0.5, gamma_max=1.0,
    ...                           dist0_sq=4.0)
    >>> promise.rate, promise.bound(2)
    (0.875, 3.0625)

    Reference: Zhang, Shi and Gu, Theorem 1 (label strongly_convex_general), Appendix B.
    """
    check(THEOREM, rule, L=L, beta=beta, c=c, gamma_max=gamma_max, omega=omega)
    conditions.real(THEOREM, validation.POSITIVE, mu=mu)
    conditions.real(THEOREM, validation.NON_NEGATIVE, sigma2=sigma2)
    conditions.require(THEOREM, mu <= L, "mu <= L", mu=mu, L=L)
    conditions.require(THEOREM, c >= 0.5, "c >= 1/2", c=c)
    gamma_min, _ = step_bounds(rule, L=L, beta=beta, c=c, gamma_max=gamma_max, omega=omega)
    x = mu * gamma_min
    larger = (1.0 - x + sqrt((1.0 - x) ** 2 - 4.0 * x * beta)) / 2.0
    smaller = x * beta / larger  # the roots multiply to x beta
    contraction = x * (1.0 + beta) / (1.0 - smaller)  # (1 - r)(1 - r_-) = x (1 + beta)
    conditions.require(THEOREM, contraction > 0.0, "1 - r > 0 in float64", contraction=contraction)
    residual = 2.0 * gamma_max * sigma2 / x
    conditions.finite(THEOREM, residual=residual)
    B = _initial_constant(larger, smaller, residual, dist0_sq, dist1_sq)
    return StronglyConvex(1.0 - contraction, contraction, smaller, residual, gamma_min, B)


def _initial_constant(
    larger: float, smaller: float, residual: float, dist0_sq: float | None, dist1_sq: float | None
) -> float | None:
    """B from the last display of the proof: e_k <= a r_+^k + b r_-^k with a + b = e_0."""
    if dist0_sq is None:
        return None
    conditions.real(THEOREM, validation.NON_NEGATIVE, dist0_sq=dist0_sq)
    excess0 = dist0_sq - residual
    if excess0 <= 0.0:
        return 0.0  # once e_k <= 0 it stays so
    excess1 = (larger + smaller) * excess0
    if dist1_sq is not None:
        conditions.real(THEOREM, validation.NON_NEGATIVE, dist1_sq=dist1_sq)
        excess1 = min(excess1, dist1_sq - residual)
    return max(excess0, (excess1 - smaller * excess0) / (larger - smaller))
