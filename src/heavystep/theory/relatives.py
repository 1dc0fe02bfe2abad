"""What is proved of two relatives: SHB-IMA with its last iterate, and searches along directions."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from heavystep import validation
from heavystep.theory import conditions
from heavystep.theory.arguments import documented

THEOREM_L, LEMMA_D = "Theorem L", "Lemma D"


@dataclass(frozen=True)
class LastIterate:
    """What Theorem L promises of the last iterate of SHB-IMA."""

    eta: float
    eta_power: float
    noise: float
    dist0_sq: float

    def bound(self, k: Any) -> Any:
        r"""Bound on :math:`E[F(\theta_k) - F^\star]`, k >= 0."""
        steps = conditions.steps(THEOREM_L, k, least=0)
        conditions.at_most(THEOREM_L, steps, 1e8)
        etas = self.eta * np.arange(1.0, steps.max() + 2.0) ** -self.eta_power
        last = steps.astype(np.int64)
        sums, squares = np.cumsum(etas)[last], np.cumsum(etas**2)[last]
        return conditions.like(k, (self.dist0_sq + 2.0 * self.noise * squares) / sums)


@documented(
    eta="eta_0, in (0, 1 / (4 L)].",
    eta_power="p of eta_k = eta_0 (1 + k)^-p, >= 0.",
    noise="E ||grad f(theta*; x)||^2, >= 0; 0 where one point fits all.",
)
def last_iterate(
    *, L: float, eta: float, dist0_sq: float, noise: float = 0.0, eta_power: float = 0.0
) -> LastIterate:
    r"""Rate of the last iterate of SHB in iterate-moving-average form (Theorem L).

    .. math:: E[F(\theta_k) - F^\star] \le \frac{\|\theta_0-\theta^\star\|^2
              + 2\,E\|\nabla f(\theta^\star;x)\|^2\sum_{j\le k}\eta_j^2}{\sum_{j\le k}\eta_j}

    for the method ``SHBIMA`` (:mod:`heavystep.rules.shb_ima`). Assumes convex L-smooth samples.

    *Proof.* (1) :math:`z_k = \theta_k + \lambda_k(\theta_k-\theta_{k-1})`, so that by convexity
    :math:`E\langle g_k, z_k-\theta^\star\rangle \ge (1+\lambda_k)(F(\theta_k)-F^\star) -
    \lambda_k(F(\theta_{k-1})-F^\star)`. (2) :math:`E\|g_k\|^2 \le 4L(F(\theta_k)-F^\star) +
    2E\|\nabla f(\theta^\star;x)\|^2`. (3) With :math:`4L\eta_k \le 1` the square of
    :math:`z_{k+1}-\theta^\star = z_k-\theta^\star-\eta_kg_k` gives, for
    :math:`2\eta_k\lambda_k = S_k = \sum_{j<k}\eta_j`, :math:`E[\|z_{k+1}-\theta^\star\|^2 + S_{k+1}
    (F(\theta_k)-F^\star)] \le \|z_k-\theta^\star\|^2 + S_k(F(\theta_{k-1})-F^\star) +
    2\eta_k^2E\|\nabla f(\theta^\star;x)\|^2`. Sum over k.

    >>> last_iterate(L=1.0, eta=0.25, dist0_sq=4.0).bound(7)
    2.0

    Reference: after Sebbouh, Gower and Defazio (2021), arXiv 2006.07867; proved here.
    """
    conditions.real(THEOREM_L, validation.POSITIVE, L=L, eta=eta)
    conditions.real(
        THEOREM_L, validation.NON_NEGATIVE, dist0_sq=dist0_sq, noise=noise, eta_power=eta_power
    )
    conditions.require(THEOREM_L, 4.0 * L * eta <= 1.0, "eta <= 1 / (4 L)", eta=eta, L=L)
    return LastIterate(eta, eta_power, noise, dist0_sq)


@documented(
    c="sufficient decrease constant, in (0, 1).",
    omega="backtracking factor, in (0, 1).",
    cap="the trial with which the search begins, > 0.",
    least_slope="c_1, in (0, 1].",
    most_length="c_2, >= 1.",
)
def directional_step(
    *, L: float, c: float, omega: float, cap: float, least_slope: float, most_length: float
) -> float:
    r"""Smallest step of an Armijo search along a direction that keeps to the gradient (Lemma D).

    .. math:: t_k \ge \min\Big\{\mathrm{cap},\ \frac{2\omega(1-c)\,c_1}{L\,c_2^2}\Big\}, \qquad
              \langle g_k,d_k\rangle \ge c_1\|g_k\|^2, \quad \|d_k\| \le c_2\|g_k\|

    Assumes L-smooth samples. *Proof.* The loss at :math:`\theta_k-td_k` is at most
    :math:`f_k-t\langle g_k,d_k\rangle+\frac L2t^2\|d_k\|^2`, so that every
    :math:`t \le 2(1-c)\langle g_k,d_k\rangle/(L\|d_k\|^2)` is accepted, and that is at least
    :math:`2(1-c)c_1/(Lc_2^2)`. Where d_k is the gradient it is Lemma 2's, without kappa.

    >>> directional_step(L=2.0, c=0.75, omega=0.5, cap=1.0, least_slope=1.0, most_length=1.0)
    0.125

    Reference: after Lapucci and Pucci (2025), arXiv 2408.03199; proved here.
    """
    conditions.real(LEMMA_D, validation.POSITIVE, L=L, cap=cap)
    conditions.real(LEMMA_D, validation.OPEN_UNIT, c=c, omega=omega)
    conditions.require(LEMMA_D, 0.0 < least_slope <= 1.0, "c_1 in (0, 1]", least_slope=least_slope)
    conditions.require(LEMMA_D, most_length >= 1.0, "c_2 >= 1", most_length=most_length)
    return float(min(cap, 2.0 * omega * (1.0 - c) * least_slope / (L * most_length**2)))
