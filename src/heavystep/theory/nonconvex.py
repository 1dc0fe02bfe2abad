"""Theorems 3 and 5: non-convex objectives, the best iterate and almost sure convergence."""

from dataclasses import dataclass
from math import hypot, sqrt
from typing import Any

from heavystep import validation
from heavystep.rules import momentum_factor
from heavystep.theory import conditions
from heavystep.theory.arguments import C_NONCONVEX, documented
from heavystep.theory.convex import SummableSequence
from heavystep.theory.steps import check, step_bounds

THEOREM = "Theorem 3"


@dataclass(frozen=True)
class NonConvex:
    r"""What Theorem 3 promises about :math:`\min_{m<k} E\|\nabla F(\theta_m)\|^2`."""

    s1: float
    s2: float
    q: float
    gamma_min: float
    gamma_max_limit: float
    """What gamma_max must stay below."""
    scale: float
    """(1 + beta) s1, by which both terms of the bound are divided."""
    gap0: float
    delta: float

    def bound(self, k: Any) -> Any:
        """Bound on the least expected squared gradient norm of theta_0 .. theta_{k-1}; k >= 1."""
        steps = conditions.steps(THEOREM, k, least=1)
        noise = self.s2 * self.delta / self.scale
        return conditions.like(k, self.gap0 / self.scale / steps + noise * (steps + 1.0) / steps)


@documented(c=C_NONCONVEX)
def nonconvex_step_limit(
    rule: str, *, L: float, rho: float, beta: float, c: float, omega: float | None = None
) -> float:
    r"""What gamma_max must stay below in Theorem 3.

    .. math:: \frac{(1-\sqrt\beta)^2}{4\rho L}
              \Big(1-\rho+\sqrt{(1-\rho)^2+2\rho(1+\rho)\kappa}\Big),\qquad
              \kappa = \tfrac1c\ \text{(Polyak)},\quad \kappa = 4\omega(1-c)\ \text{(Armijo)}

    >>> nonconvex_step_limit("polyak", L=2.0, rho=1.0, beta=0.0, c=0.25)
    0.5

    Reference: Zhang, Shi and Gu, Theorem 3 (label nonconvex_general), Section 3.
    """
    known = check(THEOREM, rule, L=L, beta=beta, c=c, gamma_max=1.0, omega=omega)
    conditions.real(THEOREM, validation.POSITIVE, rho=rho)
    condition = known.condition_on_c(rho)
    holds = float(c) in condition.admissible
    conditions.require(THEOREM, holds, known.inequality, **condition.numbers)
    kappa = 2.0 * known.unit_step()
    # (1 - rho) + sqrt((1 - rho)^2 + t), written without cancellation where rho > 1.
    t = 2.0 * rho * (1.0 + rho) * kappa
    root = hypot(1.0 - rho, sqrt(t))
    bracket = 1.0 - rho + root if rho <= 1.0 else t / (rho - 1.0 + root)
    steepness = 4.0 * rho * L
    conditions.require(THEOREM, steepness > 0.0, "rho L > 0 in float64", rho=rho, L=L)
    limit = float(momentum_factor(beta) / steepness * bracket)
    conditions.finite(THEOREM, t=t, limit=limit)
    conditions.require(THEOREM, limit > 0.0, "limit > 0 in float64", limit=limit)
    return limit


@documented(c=C_NONCONVEX, gamma_max="cap of the step, below :func:`nonconvex_step_limit`.")
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

    Assumes L-smooth samples and weak growth
    :math:`E\|\nabla f\|^2 \le \rho\|\nabla F\|^2+\delta`. Strength: upper. Without noise
    (delta = 0) the second term vanishes.

    >>> nonconvex("polyak", L=2.0, rho=1.0, delta=0.0, beta=0.0, c=0.25, gamma_max=0.25,
    ...           gap0=1.0).bound(4)
    2.0

    Reference: Zhang, Shi and Gu, Theorem 3 (label nonconvex_general), Appendix B.
    """
    limit = nonconvex_step_limit(rule, L=L, rho=rho, beta=beta, c=c, omega=omega)
    conditions.real(THEOREM, validation.NON_NEGATIVE, delta=delta, gap0=gap0)
    conditions.real(THEOREM, validation.POSITIVE, gamma_max=gamma_max)
    conditions.require(
        THEOREM, gamma_max < limit, "gamma_max < limit", gamma_max=gamma_max, limit=limit
    )
    gamma_min, _ = step_bounds(rule, L=L, beta=beta, c=c, gamma_max=gamma_max, omega=omega)
    q = L * gamma_max * gamma_max / momentum_factor(beta) + (gamma_max - gamma_min) / 2.0
    s1 = (gamma_max + gamma_min) / 2.0 - rho * q
    s2 = q / (1.0 - beta)
    scale = (1.0 + beta) * s1
    # With gamma_max just below its limit s1 > 0 in exact arithmetic, but not after rounding.
    conditions.require(THEOREM, s1 > 0.0, "s1 > 0 in float64", s1=s1, gamma_max=gamma_max)
    conditions.finite(THEOREM, first=gap0 / scale, second=s2 * delta / scale)
    return NonConvex(s1, s2, q, gamma_min, limit, scale, gap0, delta)


@documented(
    rho="strong growth factor, > 0.",
    c=C_NONCONVEX,
    gamma_max="cap of the step, below :func:`nonconvex_step_limit`.",
)
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
    with conditions.told_by("Theorem 5"):
        promise = nonconvex(
            rule, L=L, rho=rho, delta=0.0, beta=beta, c=c, gamma_max=gamma_max, omega=omega,
            gap0=gap0,
        )  # fmt: skip
    return SummableSequence("Theorem 5", promise.gap0 / promise.scale)
