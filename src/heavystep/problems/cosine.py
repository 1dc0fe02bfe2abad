"""A separable non-convex sum: a bowl with cosine ripples, tilted term by term."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from heavystep.arrays import Array, inner
from heavystep.problems.base import EPS, WithGrowth, finite_array, frozen, start


def bowl(theta: Array) -> Array:
    r"""The sum over coordinates of :math:`\frac12 t^2 + 2(1 - \cos t)`: (..., d) to (...)."""
    # 1 - cos t = 2 sin^2(t/2): exact to rounding also where cos t rounds to 1.
    half_sine = np.sin(0.5 * theta)
    return 0.5 * inner(theta, theta) + 4.0 * inner(half_sine, half_sine)


def tilted_minimum(z: Array) -> Array:
    r"""Global minimum over t of the tilted bowl :math:`h(t) = t^2/2 + 4\sin^2(t/2) - z t`.

    At a minimum :math:`h'' = 1 + 2\cos t \ge 0`, so :math:`t = 2\pi k + \tau` with
    :math:`|\tau| \le 2\pi/3`, and :math:`h' = 0` reads :math:`\tau + 2\sin\tau = y` with
    :math:`y = z - 2\pi k`. There :math:`t - z = -2\sin\tau`, so

    .. math:: h(t) = -z^2/2 + m(\tau), \qquad m(\tau) = 2\sin^2\tau + 4\sin^2(\tau/2).

    Both :math:`\tau + 2\sin\tau` and m, whose derivative is :math:`2\sin\tau(1 + 2\cos\tau)`,
    increase with :math:`\tau \in [0, 2\pi/3]`, and the first is odd, the second even. Hence the
    lowest of these minima is the one with the smallest :math:`|y|`: k is the integer nearest to
    :math:`z/(2\pi)`, whatever z. Then :math:`|y| \le \pi < 2\pi/3 + \sqrt3`, so there is such a
    tau, and :math:`|\tau| < 1.25`.
    """
    y = z - 2.0 * np.pi * np.round(z / (2.0 * np.pi))
    # Newton from y/3, where tau + 2 sin tau - y has the opposite sign of y. That function of
    # |tau| is concave and increases at a rate of at least 1.6, so no step passes the root and
    # the error is at most squared: from 0.2 to rounding in 5 steps.
    tau = y / 3.0
    for _ in range(8):
        tau -= (tau + 2.0 * np.sin(tau) - y) / (1.0 + 2.0 * np.cos(tau))
    return 2.0 * np.sin(tau) ** 2 + 4.0 * np.sin(0.5 * tau) ** 2 - 0.5 * z**2


def centred(xi: Array) -> bool:
    """True if the mean of ``xi`` (n, d) is 0 up to the rounding of a sum of n terms."""
    rounding = xi.shape[0] * EPS * np.max(np.abs(xi), axis=0)
    return bool(np.all(np.abs(xi.mean(axis=0)) <= rounding))


@dataclass(frozen=True, init=False, eq=False)
class Cosine(WithGrowth):
    r"""The non-convex sum of Section 5.

    .. math:: f(\theta; i) = s_i \sum_j \big[\tfrac12\theta_j^2 + 2(1 - \cos\theta_j)\big]
              - \xi_i^\top\theta, \qquad s_i > 0, \quad \sum_i \xi_i = 0,

    so that F is the mean of ``s`` times the bowl. A mean of ``xi`` at rounding level counts
    as 0.

    Args:
        s: (n,) scales, > 0.
        xi: (n, d) tilts with mean 0.
        theta0: (d,) where runs start; pi in each coordinate by default.

    >>> problem = Cosine(s=[0.5, 1.5], xi=[[0.0], [0.0]])
    >>> problem.L, problem.rho, problem.delta
    (4.5, 1.25, 0.0)

    Reference: Zhang, Shi and Gu, Section 5.
    """

    s: Array
    xi: Array
    theta0: Array
    convex = False
    mu = 0.0
    version: ClassVar[int] = 1

    def __init__(self, s: ArrayLike, xi: ArrayLike, theta0: ArrayLike | None = None) -> None:
        tilts = finite_array("xi", xi, (None, None))
        n, dim = tilts.shape
        scales = finite_array("s", s, (n,), "the rows of xi")
        if scales.min() <= 0.0:
            raise ValueError(f"s must be > 0, got {scales.min()} at index {scales.argmin()}")
        if not centred(tilts):
            worst = np.abs(tilts.mean(axis=0)).max()
            raise ValueError(f"xi must have mean 0, got a mean of size {worst:g}")
        first = start(theta0, np.full(dim, np.pi), "the columns of xi")
        self.__dict__.update(s=scales, xi=tilts, theta0=first, n=n)

    @cached_property
    def _scale(self) -> float:
        """Mean of s: F is the bowl times this number."""
        return float(self.s.mean())

    def losses(self, theta: Array, i: Array) -> Array:
        losses: Array = self.s[i] * bowl(theta) - inner(self.xi[i], theta)
        return losses

    def gradients(self, theta: Array, i: Array) -> Array:
        return self.s[i][..., None] * (theta + 2.0 * np.sin(theta)) - self.xi[i]

    def objective(self, theta: Array) -> Array:
        return self._scale * bowl(theta)  # the tilts drop out

    def full_gradient(self, theta: Array) -> Array:
        return self._scale * (theta + 2.0 * np.sin(theta))

    def gap(self, theta: Array) -> Array:
        return self.objective(theta)  # F* = 0

    @cached_property
    def L(self) -> float:
        """Exact: the Hessian of term i is diagonal, s_i (1 + 2 cos theta_j) in [-s_i, 3 s_i]."""
        return float(3.0 * self.s.max())

    @cached_property
    def theta_star(self) -> Array:
        """0, the only stationary point of F."""
        # bowl' = t + 2 sin t is odd; it is > 0 on (0, pi], where sin t >= 0, and at least
        # t - 2 > 1 beyond. So F decreases towards 0 along every coordinate.
        return frozen(np.zeros(self.dim))

    @cached_property
    def f_star(self) -> Array:
        """Exact: each term is separable, with :func:`tilted_minimum` at xi_ij / s_i."""
        return frozen(self.s * tilted_minimum(self.xi / self.s[:, None]).sum(axis=-1))

    @cached_property
    def gradient_moments(self) -> tuple[Array, Array, float]:
        r"""By the bowl's gradient :math:`\phi = \nabla F / \bar s`, with bars for means over i.

        .. math:: E\|\nabla f\|^2 = \overline{s^2}\,\|\phi\|^2
                  - 2\,\overline{s\xi}^{\,\top}\phi + \overline{\|\xi\|^2},

        :math:`\phi` takes every value, because :math:`t + 2\sin t` is continuous and unbounded both
        ways.
        """
        curvature = np.full(self.dim, np.mean(self.s**2) / self._scale**2)
        tilt = self.s[:, None] * self.xi
        pull = np.zeros(self.dim) if centred(tilt) else -tilt.mean(axis=0) / self._scale
        return curvature, pull, float(np.mean(np.sum(self.xi**2, axis=1)))
