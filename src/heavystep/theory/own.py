r"""Results proved by this package: averaged heavy ball, SHB-IMA, searches along directions.

Theorem A (full losses) and Theorem S (sampled ones) are about the form of
:class:`heavystep.HeavyStep`, with a fixed positive diagonal D,

.. math:: z_{k+1} = z_k - a_k D^{-1} g_k, \quad x_{k+1} = x_k + w_k (z_{k+1} - x_k), \quad
          \theta_k = (1-\beta) z_k + \beta x_k, \quad w_k = \frac{p+1}{k+p+1}, \quad z_0 = x_0,

with :math:`g_k` taken at :math:`\theta_k`. Distances are :math:`\|u\|^2 = \sum_j D_j u_j^2`,
gradients are measured by :math:`\|g\|^2 = \sum_j g_j^2 / D_j`. A diagonal whose entries fall may
change from step to step; one whose entries rise, as a second moment does, is not covered.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

import numpy as np

from heavystep.arrays import Array
from heavystep.momentum import weight_of_next
from heavystep.rules.heavystep import POWER
from heavystep.theory import conditions
from heavystep.theory.registry import CONVEX, SMOOTH, result
from heavystep.validation import NON_NEGATIVE, OPEN_UNIT, POSITIVE, STEP, Interval

THEOREM_A, THEOREM_S, THEOREM_L = "Theorem A", "Theorem S", "Theorem L"
LENGTH = "length of a move of z in Polyak steps, in (0, 2).", Interval(0.0, 2.0)
WEIGHTS = "p of the weights w_k, >= 0.", NON_NEGATIVE


class Bound(NamedTuple):
    """A promise without constants of its own."""

    bound: Callable[[Any], Any]
    """The bound after k steps, a number or an array."""


@dataclass(frozen=True)
class Averaged:
    r"""Theorem A: :math:`V_k = \|z_k - x^\star\|^2 + L_k (F(x_{k-1}) - F^\star)` never increases.

    Therefore :math:`F(x_k) - F^\star \le \|\theta_0 - x^\star\|^2 / L_{k+1}`.
    """

    tau: float
    beta: float
    power: float

    def growth(self, k: Any) -> Any:
        r"""The largest :math:`a_k / a_{k-1}` for k >= 2; earlier steps are free."""
        steps = conditions.steps(THEOREM_A, k, least=2)
        exponent = (self.power + 1.0) * (2.0 - self.tau) / self._slope - 1.0
        return conditions.like(k, 1.0 + exponent / (steps - 1.0))

    @property
    def _slope(self) -> float:
        return 2.0 - self.tau * (1.0 - self.beta)

    def weights(self, a: Any) -> Array:
        r"""(K,) the coefficients :math:`L_1 .. L_K` for steps :math:`a_0 .. a_{K-1}`.

        .. math:: L_1 = (2-\tau) a_0, \qquad L_{k+1} = \min\Big\{
                  a_k\Big[(2-\tau) + (2 - \tau(1-\beta))\frac{k-1}{p+1}\Big],\
                  \frac{L_k}{1-v} - a_k B\Big\}

        with v and B of :func:`averaged`. The first term is the least wherever :meth:`growth` is
        obeyed. The second one admits steps that grow faster, for example back from a cap.

        Raises:
            ValueError: a step is not >= 0, or grew so fast that no coefficient is left.
        """
        (a,) = conditions.finite_arrays(THEOREM_A, nonnegative=True, a=a)
        B = 2.0 * self.beta / (1.0 - self.beta)
        weights = np.empty(len(a))
        carried = inf
        for k, step in enumerate(a):
            own = step * (2.0 - self.tau + self._slope * max(k - 1, 0) / (self.power + 1.0))
            # Equality is the usual case and its rounding would grow, by 1 / (1 - v) a step.
            rounding = 8.0 * np.finfo(float).eps * (own + step * B)
            least = own if own + step * B <= carried + rounding else carried - step * B
            weights[k] = least
            numbers = {"L": float(least), "k": k, "a_k": float(step)}
            conditions.require(THEOREM_A, least >= 0.0, "L_{k+1} >= 0 (steps grew)", **numbers)
            # 1 - v for the average that this step ends with, x_{k+1}
            w = weight_of_next(k, self.power)
            kept = (1.0 - self.beta) * (1.0 - w) / (1.0 - self.beta + self.beta * w)
            carried = least / kept if kept > 0.0 else inf
        return weights

    def bound(self, a: Any, *, dist0_sq: float, level_gap: float = 0.0) -> Array:
        r"""(K,) bounds on :math:`F(x_k) - F^\star`, k = 0 .. K-1, for the steps that were taken.

        ``level_gap`` is F* - l >= 0 where steps aim at a level l below the minimum.
        """
        conditions.real(THEOREM_A, NON_NEGATIVE, dist0_sq=dist0_sq, level_gap=level_gap)
        weights, total = self.weights(a), dist0_sq + self.tau * level_gap * np.cumsum(a)
        bounds = np.full(len(weights), inf)
        np.divide(total, weights, out=bounds, where=weights > 0.0)
        return bounds


@result(
    THEOREM_A, "V_k = ||z_k - x*||^2 + L_k (F(x_{k-1}) - F*) never increases; "
    "F(x_k) - F* <= ||theta_0 - x*||^2 / L_{k+1}",
    "F convex, full losses", "a_k ||g_k||^2 <= tau (F(theta_k) - F*), tau < 2",
    "steps that grow slowly", tau=LENGTH, power=WEIGHTS,
)  # fmt: skip
def averaged(*, tau: float, beta: float, power: float = POWER) -> Averaged:
    r"""Averaged heavy ball on a convex objective with Polyak steps (Theorem A).

    Needs no smoothness, and steps that grow as slowly as :meth:`Averaged.growth` or
    :meth:`Averaged.weights` has it. Then :math:`V_k` never increases, and F(x_k) - F* is
    O(1 / (k a_k)); for a smooth F, O(1/k).

    Any upper cap on a_k leaves it true. A level l < F* adds
    :math:`\tau (F^\star - l) \sum_j a_j` to :math:`\|\theta_0 - x^\star\|^2`. It says nothing
    about sampled losses (see :func:`averaged_sampled`), a level above F*, :math:`\tau \ge 2`, or
    diagonals that rise.

    >>> promise = averaged(tau=1.0, beta=0.9)
    >>> round(promise.growth(2), 3), promise.weights([1.0, 1.0, 1.0]).round(3).tolist()
    (4.737, [1.0, 1.0, 1.211])

    Reference: proved on the page of the theory.
    """
    return Averaged(float(tau), float(beta), float(power))


@result(
    THEOREM_S, "E F(x_k) - F* = O(1/sqrt(k)) for averaged heavy ball with Polyak steps",
    "samples convex, one point fits all", "least values known", "||g_k|| <= G",
    tau=LENGTH, power=WEIGHTS, dist0_sq="||theta_0 - x*||^2, >= 0.",
    G=("largest ||g_k|| along the run, > 0.", POSITIVE),
    least_cap=("the smallest cap of a_k, > 0; infinite: there is none.", STEP),
)  # fmt: skip
def averaged_sampled(
    *, G: float, dist0_sq: float, tau: float = 1.0, power: float = POWER, least_cap: float = inf
) -> Bound:
    r"""Averaged heavy ball with Polyak steps on sampled losses that one point fits (Theorem S).

    .. math:: a_k = \min\Big\{\tau\frac{N_k^+}{\|g_k\|^2},\ \mathrm{cap}_k\Big\}, \qquad
              N_k = f_k(\theta_k) - \ell_k + \langle g_k, z_k - \theta_k\rangle

    Samples are independent, and the least value of each is :math:`\ell_i = f_i(x^\star)` at one
    point for all. Any momentum in [0, 1), as it does not enter. Where no point fits all, nothing
    is promised here: the step then depends on its sample for ever
    (:func:`heavystep.problems.two_samples`).

    The bound on :math:`E[F(x_k) - F^\star]`, k >= 1, is the average over :math:`x_1 .. x_k` of what
    the k steps leave behind, of order :math:`(p+1)/\sqrt{(2p+1)k}`.

    >>> round(averaged_sampled(G=2.0, dist0_sq=9.0, power=0.0).bound(100), 12)
    0.6

    Reference: Oikonomou, Buchholz, Pun and Gower (2026), arXiv 2511.07767v2, the step with known
    least values (p = 0, tau = 1) and its rate; the rest proved on the page of the theory.
    """

    def bound(k: Any) -> Any:
        steps = conditions.steps(THEOREM_S, k, least=1, most=1e7)
        m = np.arange(1.0, steps.max() + 1.0)
        # x_k is the average of z_1 .. z_k with weights r_m: r_m / (r_1 + .. + r_m) = w_{m-1}
        ratio = np.where(m > 1.0, (m + power - 1.0) / np.maximum(m - 1.0, 1.0), 1.0)
        logs = np.cumsum(np.log(ratio))  # of r_m / r_1
        last = steps.astype(np.int64) - 1
        share = (power + 1.0) / (steps + power)  # r_k / (r_1 + .. + r_k)
        squares = np.logaddexp.accumulate(2.0 * logs)[last]
        spread = share * np.exp(0.5 * squares - logs[last])
        value = G * np.sqrt(dist0_sq / (tau * (2.0 - tau))) * spread
        if least_cap < inf:
            value = value + share * dist0_sq / ((2.0 - tau) * least_cap)
        return conditions.like(k, value)

    return Bound(bound)


@result(
    THEOREM_L, "E F(theta_k) - F* <= (||theta_0 - theta*||^2 + 2 noise sum eta_j^2) / "
    "sum eta_j, the last iterate of SHB-IMA",
    SMOOTH, CONVEX, "eta_k <= 1 / (4 L)",
    eta=("eta_0, in (0, 1 / (4 L)].", POSITIVE),
    eta_power=("p of eta_k = eta_0 (1 + k)^-p, >= 0.", NON_NEGATIVE),
    noise=("E ||grad f(theta*; x)||^2, >= 0; 0 where one point fits all.", NON_NEGATIVE),
)  # fmt: skip
def last_iterate(
    *, L: float, eta: float, dist0_sq: float, noise: float = 0.0, eta_power: float = 0.0
) -> Bound:
    r"""Rate of the last iterate of SHB in iterate-moving-average form (Theorem L).

    .. math:: E[F(\theta_k) - F^\star] \le \frac{\|\theta_0-\theta^\star\|^2
              + 2\,E\|\nabla f(\theta^\star;x)\|^2\sum_{j\le k}\eta_j^2}{\sum_{j\le k}\eta_j}

    with :math:`z_{k+1} = z_k - \eta_k g_k`, :math:`\theta_{k+1} = (\lambda_{k+1}\theta_k +
    z_{k+1}) / (1 + \lambda_{k+1})`, :math:`\lambda_k = \sum_{j<k}\eta_j / (2\eta_k)`.

    >>> last_iterate(L=1.0, eta=0.25, dist0_sq=4.0).bound(7)
    2.0

    Reference: after Sebbouh, Gower and Defazio (2021), arXiv 2006.07867; proved on the page.
    """
    conditions.require(THEOREM_L, 4.0 * L * eta <= 1.0, "eta <= 1 / (4 L)", eta=eta, L=L)

    def bound(k: Any) -> Any:
        steps = conditions.steps(THEOREM_L, k, least=0, most=1e8)
        etas = eta * np.arange(1.0, steps.max() + 2.0) ** -eta_power
        last = steps.astype(np.int64)
        sums, squares = np.cumsum(etas)[last], np.cumsum(etas**2)[last]
        return conditions.like(k, (dist0_sq + 2.0 * noise * squares) / sums)

    return Bound(bound)


@result(
    "Lemma D", "t_k >= min{cap, 2 omega (1 - c) c_1 / (L c_2^2)} along directions",
    SMOOTH, "<g, d> >= c_1 ||g||^2, ||d|| <= c_2 ||g||",
    c=("sufficient decrease constant, in (0, 1).", OPEN_UNIT),
    omega=("backtracking factor, in (0, 1).", OPEN_UNIT),
    cap=("the trial with which the search begins, > 0.", POSITIVE),
    least_slope="c_1, in (0, 1].",
    most_length="c_2, >= 1.",
)  # fmt: skip
def directional_step(
    *, L: float, c: float, omega: float, cap: float, least_slope: float, most_length: float
) -> float:
    r"""Smallest step of an Armijo search along a direction that keeps to the gradient (Lemma D).

    .. math:: t_k \ge \min\Big\{\mathrm{cap},\ \frac{2\omega(1-c)\,c_1}{L\,c_2^2}\Big\}, \qquad
              \langle g_k,d_k\rangle \ge c_1\|g_k\|^2, \quad \|d_k\| \le c_2\|g_k\|

    Where d_k is the gradient it is Lemma 2's, without kappa.

    >>> directional_step(L=2.0, c=0.75, omega=0.5, cap=1.0, least_slope=1.0, most_length=1.0)
    0.125

    Reference: after Lapucci and Pucci (2025), arXiv 2408.03199; proved on the page.
    """
    conditions.require(
        "Lemma D", 0.0 < least_slope <= 1.0, "c_1 in (0, 1]", least_slope=least_slope
    )
    conditions.require("Lemma D", most_length >= 1.0, "c_2 >= 1", most_length=most_length)
    return float(min(cap, 2.0 * omega * (1.0 - c) * least_slope / (L * most_length**2)))
