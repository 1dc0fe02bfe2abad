"""Theorems 7 and 9: exact convergence of the best iterate for non-convex objectives."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from heavystep import validation
from heavystep.arrays import Array
from heavystep.schedules import Schedules
from heavystep.theory import conditions
from heavystep.theory.arguments import documented
from heavystep.theory.conditions import smallest_index
from heavystep.theory.diminishing import DiminishingSteps, almost_supermartingale, check

THEOREM = "Theorem 7"


class Lyapunov(NamedTuple):
    """Coefficients C_k, D_k and E_k of the recursion in the proof."""

    C: Any
    D: Any
    E: Any


@dataclass(frozen=True)
class NonConvexDiminishing(DiminishingSteps):
    """What Theorem 7 promises: min over 1 <= m <= k of ||grad F||^2 is O(1 / S_k) almost surely."""

    rho: float
    delta: float

    def coefficients(self, k: Any) -> Lyapunov:
        r"""The coefficients of the recursion in the proof.

        .. math:: E[W_{k+1}\mid\mathcal F_k] + D_k\|\nabla F(\theta_k)\|^2
                  \le (1+\beta_k)W_k + E_k\delta,\qquad
                  W_k = F(\theta_k)-F^\star + C_{k-1}\|\theta_k-\theta_{k-1}\|^2

        C_k is infinite where its denominator is not positive, and D_k is then minus infinity.
        """
        k = conditions.steps(THEOREM, k, least=0)
        eta, beta, cap = (law(k) for law in self.schedules)
        step, spread = eta * cap, eta * (cap - self.gamma_min(k)) / 2.0
        denominator = 1.0 + beta * (1.0 - beta - step)
        safe = np.where(denominator > 0.0, denominator, 1.0)
        C = self.L * beta / 2.0 * (1.0 + beta + step) / safe
        C = np.where(denominator > 0.0, C, np.inf)
        curvature = (self.L / 2.0 + C) * (step + beta) * step
        return Lyapunov(
            C, step - (1.0 + self.rho) * spread - curvature * self.rho, spread + curvature
        )

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

        Args:
            k: number of steps >= 1, a number or an array.
            gap0: F(theta_0) - F(theta*).
        """
        conditions.real(THEOREM, validation.NON_NEGATIVE, gap0=gap0)
        conditions.require(THEOREM, self.K == -1, "D_k > 0 from k = 0 for a finite bound", K=self.K)
        counts = conditions.steps(THEOREM, k, least=1)
        conditions.at_most(THEOREM, counts, 1e7)
        last = counts.astype(np.int64)
        j = np.arange(last.max() + 1)
        _, D, E = self.coefficients(j)
        path = almost_supermartingale(gap0, self.schedules.beta(j), E * self.delta)
        weights = np.where(j > 0, D / path.growth, 0.0)
        return conditions.like(k, path.budget[last] / np.cumsum(weights)[last])


@documented()
def nonconvex_diminishing(
    rule: str, *, L: float, rho: float, delta: float, schedules: Schedules, c: float,
    omega: float | None = None,
) -> NonConvexDiminishing:  # fmt: skip
    r"""Conditions and sums of exact convergence for non-convex objectives (Theorem 7).

    .. math:: \min_{1\le m\le k}\|\nabla F(\theta_m)\|^2 = O(1/S_k)\ \text{a.s.},\qquad
              S_k = \sum_{m=1}^k\eta_m\gamma_{\max,m}

    Assumes L-smooth samples, weak growth and Assumption 5; there is no condition on c beyond
    the rule's own.

    >>> laws = Schedules.power_laws(0.5, 0.4, 0.1, 1.1, 0.1, 0.3)
    >>> nonconvex_diminishing("polyak", L=1.0, rho=1.0, delta=0.5, schedules=laws, c=1.0).K
    -1

    Reference: Zhang, Shi and Gu, Theorem 7 (label nonconvex_as_dec), Appendix C.
    """
    check(THEOREM, rule, L=L, schedules=schedules, c=c, omega=omega)
    conditions.real(THEOREM, validation.POSITIVE, rho=rho)
    conditions.real(THEOREM, validation.NON_NEGATIVE, delta=delta)
    return NonConvexDiminishing(rule, L, schedules, c, omega, rho, delta)


def nonconvex_tail_bound(tail_sum: Array, least: Array, *, head: Array) -> Array:
    r"""Upper bound on :math:`S_k\min_{1\le j\le k}\|\nabla F(\theta_j)\|^2` for n <= k (Theorem 9).

    .. math:: \sum_{m=n}^{k}\eta_m\gamma_{\max,m}\|\nabla F(\theta_m)\|^2
              + \min_{1\le j\le k}\|\nabla F(\theta_j)\|^2\,S_n

    Holds on every run. The sum is the tail of a convergent one and the minimum goes to 0, so
    that the left side goes to 0: o(1 / S_k) almost surely, under the conditions of Theorem 7.

    Args:
        tail_sum: the sum over m = n .. k.
        least: the minimum over 1 <= j <= k.
        head: S_n.

    >>> import numpy as np
    >>> nonconvex_tail_bound(np.float64(2.0), np.float64(0.5), head=3.0)
    np.float64(3.5)

    Reference: Zhang, Shi and Gu, Theorem 9 (label nonconvex_as_dec_little_o), Appendix C.
    """
    tail, smallest, head = conditions.finite_arrays(
        "Theorem 9", nonnegative=True, tail_sum=tail_sum, least=least, head=head
    )
    bound: Array = tail + smallest * head
    return bound
