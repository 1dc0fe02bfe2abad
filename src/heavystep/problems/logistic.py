"""Logistic regression, plain or with a squared penalty."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from heavystep.arrays import Array, inner
from heavystep.problems.arrays import finite_array, frozen, shaped, start
from heavystep.problems.base import FiniteSum
from heavystep.problems.newton import fit_logistic
from heavystep.problems.sigmoid import penalised_minimum, sigmoid, softplus
from heavystep.validation import NON_NEGATIVE, real


@dataclass(frozen=True, init=False, eq=False)
class LogisticRegression(FiniteSum):
    r"""Logistic regression: one term for each row of ``A``.

    .. math:: f(\theta; i) = \log(1 + e^{-m_i}) + \tfrac{\lambda}{2}\|\theta\|^2, \qquad
              m_i = y_i a_i^\top\theta

    with :math:`\lambda` = ``l2`` and :math:`m_i` the margin of row :math:`a_i`. Nothing
    overflows at any margin.

    Args:
        A: (n, d) features.
        y: (n,) labels, -1 or +1.
        l2: penalty, >= 0.
        theta0: (d,) where runs start; zeros by default.

    Raises:
        TypeError: an argument does not hold real numbers.
        ValueError: an argument is empty, not finite or of the wrong shape, a label is neither
            -1 nor +1, or the penalty is negative.

    >>> problem = LogisticRegression([[1.0], [2.0], [4.0]], [1, -1, 1])
    >>> problem.L, problem.mu
    (4.0, 0.0)
    >>> float(problem.theta_star[0].round(6)), round(problem.sigma2, 6)
    (0.315208, 0.618223)
    """

    A: Array
    y: Array
    l2: float
    theta0: Array
    convex = True
    version: ClassVar[int] = 1

    def __init__(
        self,
        A: ArrayLike,
        y: ArrayLike,
        l2: float = 0.0,
        theta0: ArrayLike | None = None,
    ) -> None:
        rows, labels = finite_array("A", A, ndim=2), finite_array("y", y, ndim=1)
        shaped("y", labels, rows.shape[:1], f"the rows of A of shape {rows.shape}")
        found = np.unique(labels)
        if not np.isin(found, (-1.0, 1.0)).all():
            shown = ", ".join(f"{value:g}" for value in found[:5])
            raise ValueError(f"y must hold labels -1 and +1 only, found {shown}")
        real("l2", l2, NON_NEGATIVE)
        first = start(theta0, np.zeros(rows.shape[1]), f"the columns of A of shape {rows.shape}")
        self.__dict__.update(A=rows, y=labels, l2=float(l2), theta0=first)

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.A.shape[0])

    @cached_property
    def _row_sqnorms(self) -> Array:
        return inner(self.A, self.A)

    def _margins(self, theta: Array, i: Array) -> Array:
        margins: Array = self.y[i] * inner(self.A[i], theta)
        return margins

    def losses(self, theta: Array, i: Array) -> Array:
        """Loss of row i with the penalty; see :meth:`FiniteSum.losses`."""
        return softplus(-self._margins(theta, i)) + self._penalty(theta)

    def gradients(self, theta: Array, i: Array) -> Array:
        """Gradient of term i; see :meth:`FiniteSum.gradients`."""
        weights = self.y[i] * sigmoid(-self._margins(theta, i))
        gradients: Array = self.l2 * theta - weights[..., None] * self.A[i]
        return gradients

    def objective(self, theta: Array) -> Array:
        """F at points (..., d)."""
        margins = self.y * (theta @ self.A.T)
        mean: Array = np.mean(softplus(-margins), axis=-1)
        return mean + self._penalty(theta)

    def full_gradient(self, theta: Array) -> Array:
        """Gradient of F at points (..., d)."""
        weights = self.y * sigmoid(-self.y * (theta @ self.A.T))
        gradient: Array = self.l2 * theta - weights @ self.A / self.n
        return gradient

    def gap(self, theta: Array) -> Array:
        r"""F - F* as the Bregman distance to the minimiser, where the gradient of F is 0.

        With :math:`u_i` the margins of :math:`\theta` less those of :math:`\theta^\star` and
        :math:`p_i = 1/(1 + e^{m_i^\star})`, it is the mean of
        :math:`\log(1 + p_i (e^{-u_i} - 1)) + p_i u_i`, plus the penalty of
        :math:`\theta - \theta^\star`. The error is of order eps |u|, not eps F*.
        """
        offset = theta - self.theta_star
        fitted = self.y * (self.A @ self.theta_star)
        u = self.y * (offset @ self.A.T)
        p = sigmoid(-fitted)
        near = np.log1p(p * np.expm1(-np.clip(u, -1.0, 1.0)))
        far = softplus(-(fitted + u)) - softplus(-fitted)
        distances = np.where(np.abs(u) <= 1.0, near, far) + p * u
        mean: Array = np.mean(distances, axis=-1)
        return mean + self._penalty(offset)

    def _penalty(self, theta: Array) -> Array:
        return 0.5 * self.l2 * inner(theta, theta)

    @cached_property
    def L(self) -> float:
        r"""Exact: the second derivative of the loss is at most 1/4, with equality at margin 0."""
        return float(self._row_sqnorms.max() / 4.0 + self.l2)

    @property
    def mu(self) -> float:
        """Exact: the penalty. The losses are flat far from 0 and add nothing to it."""
        return self.l2

    @cached_property
    def f_star(self) -> Array:
        """Exact infimum of each term.

        Without penalty it is 0 where a_i is not 0 (and never attained), and log 2 where a_i is 0.
        With penalty only the direction of a_i matters:
        :func:`~heavystep.problems.sigmoid.penalised_minimum`.
        """
        if self.l2 == 0.0:
            return frozen(np.where(self._row_sqnorms > 0.0, 0.0, np.log(2.0)))
        return frozen(penalised_minimum(self._row_sqnorms / self.l2))

    @cached_property
    def theta_star(self) -> Array:
        """The unique minimiser, by :func:`~heavystep.problems.newton.fit_logistic`.

        Raises:
            ValueError: there is no minimiser, or more than one. Without penalty the data may be
                separable, or A rank deficient.
        """
        return frozen(fit_logistic(self.y[:, None] * self.A, self.l2))

    @property
    def rho(self) -> float:
        r"""Valid, not the smallest: 1 without penalty, L / mu with it; see :attr:`delta`."""
        return self.L / self.mu if self.l2 > 0.0 else 1.0

    @property
    def delta(self) -> float:
        r"""Valid for :attr:`rho`, not the smallest.

        Without penalty the mean of :math:`\|a_i\|^2`: the gradient of term i is :math:`a_i`
        times a number in (-1, 1), so this bounds :math:`E\|\nabla f\|^2` on its own.

        With penalty :math:`2 L \sigma^2`. One gradient step of length 1/L lowers a term by at
        least :math:`\|\nabla f_i\|^2 / (2L)`, and never below :math:`f_i^\star`; the mean over i is

        .. math:: E\|\nabla f\|^2 \le 2L (F - \overline{f^\star})
                  = 2L (F - F^\star) + 2L\sigma^2 \le (L/\mu)\|\nabla F\|^2 + 2L\sigma^2,

        the last step by strong convexity.
        """
        return 2.0 * self.L * self.sigma2 if self.l2 > 0.0 else float(self._row_sqnorms.mean())
