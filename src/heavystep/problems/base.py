"""The interface of a problem: vectorised losses and gradients, and exact constants."""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from heavystep.arrays import Array

EPS = float(np.finfo(float).eps)


class Problem(ABC):
    r"""A mean of n terms, :math:`F(\theta) = \frac1n \sum_{i=1}^n f(\theta; i)`, to be simulated.

    Points are arrays (..., d), many at once. Constants are proved or computed to rounding, never
    estimated; they stay true, as arrays are read-only.
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
    def dim(self) -> int:
        """d, the number of parameters."""
        return len(self.theta0)

    @property
    @abstractmethod
    def L(self) -> float:
        """Smallest constant with which every term has a Lipschitz gradient (Assumption 1)."""

    @property
    @abstractmethod
    def f_star(self) -> Array:
        """(n,) infimum of each term."""

    @abstractmethod
    def objective(self, theta: Array) -> Array:
        """F(theta), (...)."""

    @abstractmethod
    def full_gradient(self, theta: Array) -> Array:
        """Gradient of F, (..., d)."""


class FiniteSum(Problem):
    """A problem whose constants are all known exactly; one point can go with many indices (...)."""

    @property
    @abstractmethod
    def theta_star(self) -> Array:
        """(d,) minimiser of F."""

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

    @abstractmethod
    def losses(self, theta: Array, i: Array) -> Array:
        """f(theta; i), (...)."""

    @abstractmethod
    def gradients(self, theta: Array, i: Array) -> Array:
        """Gradient of f(theta; i), (..., d)."""

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


class WithGrowth(FiniteSum):
    r"""A finite sum whose E ||grad f||^2 is a quadratic of grad F: delta is exact.

    In some orthonormal basis :math:`v = \nabla F(\theta)` takes every value in :math:`R^d`, and

    .. math:: E\|\nabla f(\theta; x)\|^2 = \sum_j (k_j v_j^2 + 2 p_j v_j) + c_0

    Then :math:`E\|\nabla f\|^2 - \rho\|\nabla F\|^2` is bounded above exactly when, for each j,
    :math:`\rho > k_j`, or :math:`\rho = k_j` and :math:`p_j = 0`. Its maximum, at
    :math:`v_j = p_j / (\rho - k_j)`, is the smallest delta:

    .. math:: \delta(\rho) = c_0 + \sum_{j:\ p_j \ne 0} p_j^2 / (\rho - k_j).

    Reference: Zhang, Shi and Gu, Assumption 4 (label wgc).
    """

    @property
    @abstractmethod
    def gradient_moments(self) -> tuple[Array, Array, float]:
        """(k, p, c0) above."""

    @cached_property
    def rho(self) -> float:
        """The least rho, max_j k_j, if all p_j are 0; else twice that."""
        curvature, pull, _ = self.gradient_moments
        return float((2.0 if pull.any() else 1.0) * curvature.max())

    @cached_property
    def delta(self) -> float:
        """The smallest delta for :attr:`rho`."""
        curvature, pull, noise = self.gradient_moments
        pulled = pull != 0.0
        return noise + float(np.sum(pull[pulled] ** 2 / (self.rho - curvature[pulled])))


def frozen(array: Array) -> Array:
    """The array itself, made read-only so that constants computed from it stay true."""
    array.flags.writeable = False
    return array


def finite_array(name: str, value: Any, shape: tuple[int | None, ...], why: str = "") -> Array:
    """A read-only float64 copy; what is empty, not finite or of another shape is refused.

    ``shape`` has None where any length will do; ``why`` names what the others must match.
    """
    try:
        if np.iscomplexobj(value):
            raise TypeError
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a dense array of real numbers, got {value!r}") from None
    if array.ndim != len(shape):
        raise ValueError(f"{name} must have {len(shape)} dimension(s), got shape {array.shape}")
    if array.size == 0:
        raise ValueError(f"{name} must not be empty, got shape {array.shape}")
    if not np.isfinite(array).all():
        index = tuple(int(k) for k in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite, got {array[index]} at index {index}")
    if why and array.shape != shape:
        raise ValueError(f"{name} must have shape {shape} to match {why}, got {array.shape}")
    return frozen(array)


def start(theta0: ArrayLike | None, default: Array, why: str) -> Array:
    """The starting point of runs: ``theta0``, or ``default`` if that is None."""
    return finite_array("theta0", default if theta0 is None else theta0, default.shape, why)
