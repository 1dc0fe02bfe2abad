"""What every finite sum offers: vectorised losses and gradients, and exact constants."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from heavystep.arrays import Array


class FiniteSum(ABC):
    r"""A finite sum :math:`F(\theta) = \frac1n \sum_{i=1}^n f(\theta; i)` with exact constants.

    Points are arrays (..., d). Every method takes many points at once, and one point can go with
    many indices. Constants are proved or computed to rounding, never estimated: each docstring
    says how. A costly constant is computed when it is first asked for, and then kept. It stays
    true because the arrays of a problem are read-only.
    """

    version: ClassVar[int]
    """Raised when the same arguments would give other numbers; part of the key of stored runs."""
    lane_bytes: ClassVar[int] = 1 << 14
    """One core takes steps of several runs together, because a step alone is too short and waits
    for its own sums; those must find their points in so many bytes, the nearest cache."""
    convex: bool
    """Whether every term is convex."""
    theta0: Array
    """(d,) where runs start."""

    @property
    @abstractmethod
    def n(self) -> int:
        """Number of terms."""

    @property
    def dim(self) -> int:
        """d, the number of parameters."""
        return int(self.theta0.shape[0])

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
    @abstractmethod
    def f_star(self) -> Array:
        """(n,) infimum of each term."""

    @property
    @abstractmethod
    def theta_star(self) -> Array:
        """(d,) minimiser of F."""

    @property
    def F_star(self) -> float:
        """Minimum of F."""
        return float(self.objective(self.theta_star))

    @property
    def sigma2(self) -> float:
        r"""Optimal difference :math:`\sigma^2 = F(\theta^\star) - \frac1n\sum_i f_i^\star`."""
        i = np.arange(self.n)
        theta = np.broadcast_to(self.theta_star, (self.n, self.dim))
        losses = self.losses(theta, i)
        mean = float(np.mean(losses - self.f_star))
        rounding = 8.0 * np.finfo(float).eps * float(np.mean(abs(losses) + abs(self.f_star)))
        return mean if mean > rounding else 0.0

    def gap(self, theta: Array) -> Array:
        """F(theta) - F*. Subclasses use a form without cancellation where there is one."""
        return self.objective(theta) - self.F_star
