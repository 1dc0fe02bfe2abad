"""Finite sums: vectorised losses and gradients, and exact constants."""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from heavystep.arrays import Array
from heavystep.validation import POSITIVE, real

EPS = float(np.finfo(float).eps)


class FiniteSum(ABC):
    r"""A finite sum :math:`F(\theta) = \frac1n \sum_{i=1}^n f(\theta; i)` with exact constants.

    Points are arrays (..., d), many at once; one point can go with many indices. Constants are
    proved or computed to rounding, never estimated; they stay true, as arrays are read-only.
    """

    version: ClassVar[int]
    """Raised when the same arguments would give other numbers; part of the key of stored runs."""
    convex: bool
    """True if every term is convex."""
    n: int
    """Number of terms."""
    theta0: Array
    """(d,) where runs start."""

    @property
    @abstractmethod
    def theta_star(self) -> Array:
        """(d,) minimiser of F."""

    @property
    @abstractmethod
    def f_star(self) -> Array:
        """(n,) infimum of each term."""

    @property
    @abstractmethod
    def L(self) -> float:
        """Smallest constant with which every term has a Lipschitz gradient (Assumption 1)."""

    @property
    @abstractmethod
    def mu(self) -> float:
        """Strong convexity of F; 0 if it is not strongly convex."""

    @property
    @abstractmethod
    def rho(self) -> float:
        """Weak growth: E ||grad f||^2 <= rho ||grad F||^2 + delta (Assumption 4)."""

    @property
    @abstractmethod
    def delta(self) -> float:
        """The constant that belongs to :attr:`rho`."""

    @property
    def dim(self) -> int:
        """d, the number of parameters."""
        return len(self.theta0)

    @abstractmethod
    def losses(self, theta: Array, i: Array) -> Array:
        """f(theta; i): points (..., d) and indices (...) give (...)."""

    @abstractmethod
    def gradients(self, theta: Array, i: Array) -> Array:
        """Gradient of f(theta; i): points (..., d) and indices (...) give (..., d)."""

    @abstractmethod
    def objective(self, theta: Array) -> Array:
        """F(theta): points (..., d) give (...)."""

    @abstractmethod
    def full_gradient(self, theta: Array) -> Array:
        """Gradient of F: points (..., d) give (..., d)."""

    @property
    def F_star(self) -> float:
        """Minimum of F."""
        return float(self.objective(self.theta_star))

    @property
    def sigma2(self) -> float:
        r"""Optimal difference :math:`\sigma^2 = F(\theta^\star) - \frac1n\sum_i f_i^\star`."""
        theta = np.broadcast_to(self.theta_star, (self.n, self.dim))
        losses = self.losses(theta, np.arange(self.n))
        mean = float(np.mean(losses - self.f_star))
        rounding = 8.0 * EPS * float(np.mean(abs(losses) + abs(self.f_star)))
        return mean if mean > rounding else 0.0

    def gap(self, theta: Array) -> Array:
        """F(theta) - F*. Subclasses use a form without cancellation where there is one."""
        return self.objective(theta) - self.F_star


class WeakGrowth(NamedTuple):
    """The constants of Assumption 4: E ||grad f||^2 <= rho ||grad F||^2 + delta."""

    rho: float
    delta: float


class WithGrowth(FiniteSum):
    """A finite sum whose E ||grad f||^2 is a quadratic of grad F: delta is exact."""

    @abstractmethod
    def second_moment(self) -> tuple[Array, Array, float]:
        """(k, p, c0) of :meth:`weak_growth`."""

    def weak_growth(self, rho: float | None = None) -> WeakGrowth:
        r"""The pair (rho, delta) of Assumption 4, with the smallest delta for this rho.

        In some orthonormal basis :math:`v = \nabla F(\theta)` takes every value in :math:`R^d`, and

        .. math:: E\|\nabla f(\theta; x)\|^2 = \sum_j (k_j v_j^2 + 2 p_j v_j) + c_0

        Then :math:`E\|\nabla f\|^2 - \rho\|\nabla F\|^2` is bounded above exactly when, for each j,
        :math:`\rho > k_j`, or :math:`\rho = k_j` and :math:`p_j = 0`. Its maximum, at
        :math:`v_j = p_j / (\rho - k_j)`, is the smallest delta:

        .. math:: \delta(\rho) = c_0 + \sum_{j:\ p_j \ne 0} p_j^2 / (\rho - k_j).

        Args:
            rho: at least :math:`\rho_0 = \max_j k_j`, and greater where some :math:`p_j` is not 0.
                None: :math:`\rho_0` if all :math:`p_j` are 0, else :math:`2\rho_0`.

        Raises:
            ValueError: ``rho`` is too small for any delta.

        Reference: Zhang, Shi and Gu, Assumption 4 (label wgc).
        """
        curvature, pull, noise = self._moments
        rho_0, pulled = float(curvature.max()), pull != 0.0
        if rho is None:
            rho = 2.0 * rho_0 if pulled.any() else rho_0
        real("rho", rho, POSITIVE)
        if rho < rho_0 or (pulled.any() and rho == rho_0):
            sign = ">" if pulled.any() else ">="
            wanted = f"{sign} rho_0 = {rho_0:.17g} (weak growth, Assumption 4)"
            raise ValueError(f"rho must be {wanted}, got {rho!r}")
        delta = noise + float(np.sum(pull[pulled] ** 2 / (rho - curvature[pulled])))
        return WeakGrowth(float(rho), delta)

    @cached_property
    def _moments(self) -> tuple[Array, Array, float]:
        return self.second_moment()

    @cached_property
    def rho(self) -> float:
        """The default rho of :meth:`weak_growth`."""
        return self.weak_growth().rho

    @cached_property
    def delta(self) -> float:
        """The smallest delta for :attr:`rho`."""
        return self.weak_growth().delta


def frozen(array: Array) -> Array:
    """The array itself, made read-only so that constants computed from it stay true."""
    array.flags.writeable = False
    return array


def finite_array(
    name: str, value: Any, ndim: int, shape: tuple[int, ...] | None = None, why: str = "",
    *, empty: bool = False,
) -> Array:  # fmt: skip
    """A read-only float64 copy; what is not finite, is empty or has another shape is refused.

    ``why`` names what the shape must match.
    """
    try:
        if np.iscomplexobj(value):
            raise TypeError
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a dense array of real numbers, got {value!r}") from None
    if array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s), got shape {array.shape}")
    if array.size == 0 and not empty:
        raise ValueError(f"{name} must not be empty, got shape {array.shape}")
    if not np.isfinite(array).all():
        index = tuple(int(k) for k in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite, got {array[index]} at index {index}")
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name} must have shape {shape} to match {why}, got {array.shape}")
    return frozen(array)


def start(theta0: ArrayLike | None, default: Array, why: str) -> Array:
    """Where runs start: ``theta0``, or ``default`` if that is None."""
    if theta0 is None:
        return frozen(default)
    return finite_array("theta0", theta0, 1, default.shape, why)
