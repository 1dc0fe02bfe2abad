r"""Averaged heavy ball with Polyak steps: Theorem A (full losses) and Theorem S (sampled ones).

Both are about the form of :class:`heavystep.HeavyStep`, with a fixed positive diagonal D,

.. math:: z_{k+1} = z_k - a_k D^{-1} g_k, \quad x_{k+1} = x_k + w_k (z_{k+1} - x_k), \quad
          \theta_k = (1-\beta) z_k + \beta x_k, \quad w_k = \frac{p+1}{k+p+1}, \quad z_0 = x_0,

with :math:`g_k` taken at :math:`\theta_k`. Distances are :math:`\|u\|^2 = \sum_j D_j u_j^2`,
gradients are measured by :math:`\|g\|^2 = \sum_j g_j^2 / D_j`. A diagonal whose entries fall may
change from step to step; one whose entries rise, as a second moment does, is not covered.
"""

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from heavystep import validation
from heavystep.arrays import Array
from heavystep.theory import conditions
from heavystep.theory.arguments import documented

THEOREM_A, THEOREM_S = "Theorem A", "Theorem S"
TAU = validation.Interval(0.0, 2.0)
_TEXTS = {
    "tau": "length of a move of z in Polyak steps, in (0, 2).",
    "beta": "momentum, in [0, 1).",
    "power": "p of the weights w_k, >= 0.",
}


@dataclass(frozen=True)
class Averaged:
    r"""What Theorem A promises: V never increases.

    .. math:: V_k = \|z_k - x^\star\|^2 + L_k (F(x_{k-1}) - F^\star)

    Therefore :math:`F(x_k) - F^\star \le \|\theta_0 - x^\star\|^2 / L_{k+1}`.
    """

    tau: float
    beta: float
    power: float

    def growth(self, k: Any) -> Any:
        r"""What :math:`a_k / a_{k-1}` may be, for k >= 2; earlier steps are free."""
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
            w = (self.power + 1.0) / (k + self.power + 1.0)
            kept = (1.0 - self.beta) * (1.0 - w) / (1.0 - self.beta + self.beta * w)
            carried = least / kept if kept > 0.0 else inf
        return weights

    def bound(self, a: Any, *, dist0_sq: float, level_gap: float = 0.0) -> Array:
        r"""(K,) bounds on :math:`F(x_k) - F^\star`, k = 0 .. K-1, for the steps that were taken.

        Args:
            a: (K,) the steps a_k, whatever chose them: a cap makes them shorter.
            dist0_sq: ||theta_0 - x*||^2.
            level_gap: e = F* - l >= 0 where steps aim at a level l below the minimum.
        """
        conditions.real(THEOREM_A, validation.NON_NEGATIVE, dist0_sq=dist0_sq, level_gap=level_gap)
        weights, total = self.weights(a), dist0_sq + self.tau * level_gap * np.cumsum(a)
        bounds = np.full(len(weights), inf)
        np.divide(total, weights, out=bounds, where=weights > 0.0)
        return bounds


@documented(**_TEXTS)
def averaged(*, tau: float, beta: float, power: float = 8.0) -> Averaged:
    r"""Averaged heavy ball on a convex objective with Polyak steps (Theorem A).

    Assumes F convex (no smoothness), :math:`a_k\|g_k\|^2 \le \tau (F(\theta_k) - F^\star)` with
    :math:`\tau < 2`, and steps that grow slowly: :meth:`Averaged.growth`, or as
    :meth:`Averaged.weights` has it. Then :math:`V_k` never increases, and F(x_k) - F* is
    O(1 / (k a_k)); for a smooth F, O(1/k). Strength: upper.

    *Proof.* Let :math:`P = F(\theta_k) - F^\star`, :math:`S_k = F(x_k) - F^\star`.
    (1) :math:`z_k - \theta_k = \frac\beta{1-\beta}(\theta_k - x_k)`, so that convexity gives
    :math:`\langle g_k, z_k - x^\star\rangle \ge P + \frac\beta{1-\beta}(P - S_k)`.
    (2) With the length of the step, :math:`\|z_{k+1}-x^\star\|^2 \le \|z_k-x^\star\|^2 - a_k (A P -
    B S_k)`, :math:`A = \frac2{1-\beta} - \tau`, :math:`B = \frac{2\beta}{1-\beta}`.
    (3) :math:`x_k` lies between :math:`x_{k-1}` and :math:`\theta_k`: its weight on
    :math:`\theta_k` is :math:`v = w/(1-\beta+\beta w)`, :math:`w = w_{k-1}`, so that
    :math:`S_k \le (1-v) S_{k-1} + v P`.
    (4) Add :math:`L_{k+1} S_k` to (2) and insert (3): :math:`V_{k+1} \le \|z_k-x^\star\|^2 +
    [(L_{k+1}+a_kB)v - a_kA]P + (L_{k+1}+a_kB)(1-v)S_{k-1}`.
    (5) So V does not increase if :math:`0 \le L_{k+1} \le a_k(A/v - B)` and :math:`L_{k+1} \le
    L_k/(1-v) - a_kB`. (6) :math:`1/v = \beta + (1-\beta)\frac{k+p}{p+1}` gives :math:`A/v - B =
    (2-\tau) + (2-\tau(1-\beta))\frac{k-1}{p+1}` and :math:`A(1-v)/v = (2-\tau(1-\beta))
    \frac{k-1}{p+1}`: with equality in the first the second is the condition on growth.
    (7) At k = 0 all three points agree, :math:`S_0 = P`, and (2) is :math:`V_1 \le V_0` with
    :math:`L_1 = (2-\tau)a_0`.

    *What remains true.* Any upper cap on a_k (a trust region): length is an upper bound only, and
    growth is asked of the steps that were taken. A level l < F*, :math:`e = F^\star - l`: (2) gains
    :math:`\tau a_k e`, so that :math:`F(x_k) - F^\star \le (\|\theta_0-x^\star\|^2 + \tau e
    \sum_{j\le k} a_j) / L_{k+1}`, which for constant steps stays within about
    :math:`\tau e (p+1)/(2-\tau(1-\beta))`. *What does not:* sampled losses
    (:func:`averaged_sampled` has what is known), a level above F* where it stops the run,
    :math:`\tau \ge 2`, diagonals that rise.

    >>> promise = averaged(tau=1.0, beta=0.9)
    >>> round(promise.growth(2), 3), promise.weights([1.0, 1.0, 1.0]).round(3).tolist()
    (4.737, [1.0, 1.0, 1.211])

    Reference: proved here.
    """
    conditions.real(THEOREM_A, TAU, tau=tau)
    conditions.real(THEOREM_A, validation.UNIT, beta=beta)
    conditions.real(THEOREM_A, validation.NON_NEGATIVE, power=power)
    return Averaged(float(tau), float(beta), float(power))


@dataclass(frozen=True)
class AveragedSampled:
    """What Theorem S promises about the average x_k, which is the last iterate of the method."""

    tau: float
    power: float
    G: float
    dist0_sq: float
    least_cap: float

    def bound(self, k: Any) -> Any:
        r"""Bound on :math:`E[F(x_k) - F^\star]` for k >= 1, of order :math:`(p+1)/\sqrt{(2p+1)k}`.

        It is the average over :math:`x_1 .. x_k` of what the k steps leave behind.
        """
        steps = conditions.steps(THEOREM_S, k, least=1)
        conditions.at_most(THEOREM_S, steps, 1e7)
        m = np.arange(1.0, steps.max() + 1.0)
        # x_k is the average of z_1 .. z_k with weights r_m: r_m / (r_1 + .. + r_m) = w_{m-1}
        ratio = np.where(m > 1.0, (m + self.power - 1.0) / np.maximum(m - 1.0, 1.0), 1.0)
        logs = np.cumsum(np.log(ratio))  # of r_m / r_1
        last = steps.astype(np.int64) - 1
        share = (self.power + 1.0) / (steps + self.power)  # r_k / (r_1 + .. + r_k)
        squares = np.logaddexp.accumulate(2.0 * logs)[last]
        spread = share * np.exp(0.5 * squares - logs[last])
        bound = self.G * np.sqrt(self.dist0_sq / (self.tau * (2.0 - self.tau))) * spread
        if self.least_cap < inf:
            bound = bound + share * self.dist0_sq / ((2.0 - self.tau) * self.least_cap)
        return conditions.like(k, bound)


@documented(
    tau=_TEXTS["tau"],
    power=_TEXTS["power"],
    G="largest ||g_k|| along the run, > 0.",
    dist0_sq="||theta_0 - x*||^2, >= 0.",
    least_cap="the smallest cap of a_k, > 0; infinite: there is none.",
)
def averaged_sampled(
    *, G: float, dist0_sq: float, tau: float = 1.0, power: float = 8.0, least_cap: float = inf
) -> AveragedSampled:
    r"""Averaged heavy ball with Polyak steps on sampled losses that one point fits (Theorem S).

    .. math:: a_k = \min\Big\{\tau\frac{N_k^+}{\|g_k\|^2},\ \mathrm{cap}_k\Big\}, \qquad
              N_k = f_k(\theta_k) - \ell_k + \langle g_k, z_k - \theta_k\rangle

    Assumes independent samples, every :math:`f_i` convex with known least value
    :math:`\ell_i = f_i(x^\star)` at one point for all, and gradients of at most G. Any momentum in
    [0, 1), as it does not enter. Where no point fits all, nothing is promised here: the step
    then depends on its sample for ever (:func:`heavystep.problems.two_samples`).

    *Proof.* (1) :math:`\langle g_k, z_k - x^\star\rangle \ge N_k`, by convexity of :math:`f_k`; so
    :math:`\|z_{k+1}-x^\star\|^2 \le \|z_k-x^\star\|^2 - (2-\tau)\,a_k N_k^+`, and the sum of
    :math:`a_kN_k^+` is at most :math:`\|\theta_0-x^\star\|^2/(2-\tau)` on every run. (2) Let
    :math:`r_m` be the weights of the average, :math:`R_m` their sums. Given the past,
    :math:`E N_k` is the height at z of the tangent of F at :math:`\theta_k`; it is at least that of
    the tangent at :math:`x_k`, as :math:`\theta_k` lies between, and :math:`R_k (F(x_k)-F^\star) -
    R_{k-1}(F(x_{k-1})-F^\star)` is at most :math:`r_k` times the latter. (3) So :math:`R_k
    E(F(x_k)-F^\star) \le E\sum_m r_m N_m^+`; where no cap binds :math:`(N^+)^2 \le G^2 a N^+/\tau`
    (Cauchy and Schwarz over m), and where one does :math:`N^+ \le aN^+ / \mathrm{cap}`.

    >>> round(averaged_sampled(G=2.0, dist0_sq=9.0, power=0.0).bound(100), 12)
    0.6

    Reference: Oikonomou, Buchholz, Pun and Gower (2026), arXiv 2511.07767v2, the step with known
    least values (p = 0, tau = 1) and its rate; the rest proved here.
    """
    conditions.real(THEOREM_S, TAU, tau=tau)
    conditions.real(THEOREM_S, validation.NON_NEGATIVE, power=power, dist0_sq=dist0_sq)
    conditions.real(THEOREM_S, validation.POSITIVE, G=G)
    if least_cap != inf:
        conditions.real(THEOREM_S, validation.POSITIVE, least_cap=least_cap)
    return AveragedSampled(tau, power, G, dist0_sq, least_cap)
