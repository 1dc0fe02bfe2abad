"""Linear least squares, with every constant exact."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from heavystep.arrays import Array, inner
from heavystep.problems.base import EPS, WithGrowth, finite_array, frozen, start


@dataclass(frozen=True, init=False, eq=False)
class LeastSquares(WithGrowth):
    r"""Least squares: one term for each row of ``A``.

    .. math:: f(\theta; i) = \tfrac12 (a_i^\top \theta - b_i)^2

    with :math:`a_i` the rows of ``A``. The problem interpolates, :math:`\sigma^2 = 0`, when
    the minimiser fits every row with :math:`a_i \ne 0`. Residuals that rounding alone can
    explain count as 0; see :attr:`residuals`.

    Args:
        A: (n, d) matrix of full column rank, so that the minimiser is unique.
        b: (n,) targets.
        theta0: (d,) where runs start; zeros by default.

    >>> problem = LeastSquares([[1.0, 0.0], [0.0, 2.0], [1.0, 2.0]], [1.0, 4.0, 6.0])
    >>> problem.L, round(problem.sigma2, 12)
    (5.0, 0.055555555556)
    >>> problem.theta_star.round(12)
    array([1.33333333, 2.16666667])
    """

    A: Array
    b: Array
    theta0: Array
    convex = True
    version: ClassVar[int] = 1

    def __init__(self, A: ArrayLike, b: ArrayLike, theta0: ArrayLike | None = None) -> None:
        rows = finite_array("A", A, (None, None))
        n, dim = rows.shape
        targets = finite_array("b", b, (n,), "the rows of A")
        first = start(theta0, np.zeros(dim), "the columns of A")
        self.__dict__.update(A=rows, b=targets, theta0=first, n=n)
        _, singular, _ = self._svd
        rank = int(np.sum(singular > max(n, dim) * EPS * singular[0]))
        if rank < dim:
            raise ValueError(f"A must have full column rank {dim}, got rank {rank}")

    @cached_property
    def _svd(self) -> tuple[Array, Array, Array]:
        """A = U diag(S) V, with V the transpose of the right singular vectors."""
        U, S, V = np.linalg.svd(self.A, full_matrices=False)
        return U, S, V

    @cached_property
    def _row_sqnorms(self) -> Array:
        return inner(self.A, self.A)

    def _residuals_at(self, theta: Array, i: Array) -> Array:
        residuals: Array = inner(self.A[i], theta) - self.b[i]
        return residuals

    def losses(self, theta: Array, i: Array) -> Array:
        return 0.5 * self._residuals_at(theta, i) ** 2

    def gradients(self, theta: Array, i: Array) -> Array:
        return self._residuals_at(theta, i)[..., None] * self.A[i]

    def objective(self, theta: Array) -> Array:
        residuals = theta @ self.A.T - self.b
        return inner(residuals, residuals) / (2 * self.n)

    def full_gradient(self, theta: Array) -> Array:
        return (theta @ self.A.T - self.b) @ self.A / self.n

    def gap(self, theta: Array) -> Array:
        r"""F - F* as :math:`\|A(\theta - \theta^\star)\|^2 / (2n)`, which cancels nothing."""
        _, S, V = self._svd
        # ||A u|| = ||S V u||: d columns instead of n.
        image = (theta - self.theta_star) @ (S[:, None] * V).T
        return inner(image, image) / (2 * self.n)

    @cached_property
    def L(self) -> float:
        r"""Exact: the Hessian of term i is :math:`a_i a_i^\top`, so L is the largest ||a_i||^2."""
        return float(self._row_sqnorms.max())

    @cached_property
    def mu(self) -> float:
        r"""Exact: smallest eigenvalue of :math:`A^\top A / n`, from the singular values of A."""
        _, singular, _ = self._svd
        return min(float(singular[-1] ** 2 / self.n), self.L)

    @cached_property
    def theta_star(self) -> Array:
        """The unique minimiser, by singular values and one step of refinement."""
        U, S, V = self._svd
        theta = np.zeros(self.dim)
        for _ in range(2):
            theta += V.T @ ((U.T @ (self.b - self.A @ theta)) / S)
        return frozen(theta)

    @cached_property
    def residuals(self) -> Array:
        r"""(n,) residuals :math:`r_i = a_i^\top\theta^\star - b_i` that matter to sigma^2.

        0 for a zero row, whose loss nothing changes. All 0 when their norm is at most

        .. math:: 8 d \epsilon\, (\|\,|A|\,|\theta^\star|\,\| + \|b\|),

        because computing :math:`A\theta` in floating point errs by up to an eighth of that.
        Smaller residuals say nothing about the data.
        """
        live = self._row_sqnorms > 0.0
        r = np.where(live, self.A @ self.theta_star - self.b, 0.0)
        scale = np.linalg.norm(np.abs(self.A) @ np.abs(self.theta_star))
        scale += np.linalg.norm(self.b[live])
        rounding = 8 * self.dim * EPS * scale
        return frozen(np.where(np.linalg.norm(r) <= rounding, 0.0, r))

    @cached_property
    def sigma2(self) -> float:
        """Exact: half the mean squared residual at the minimiser; 0 under interpolation."""
        return float(0.5 * np.mean(self.residuals**2))

    @cached_property
    def f_star(self) -> Array:
        """Exact: 0 for each row, which some theta fits, and b_i^2 / 2 where the row is zero."""
        return frozen(np.where(self._row_sqnorms > 0.0, 0.0, 0.5 * self.b**2))

    @cached_property
    def gradient_moments(self) -> tuple[Array, Array, float]:
        r"""By singular values of :math:`D^{1/2} U S^{-1}`, where A = U S V.

        With :math:`u = \theta - \theta^\star` and :math:`D = diag(\|a_i\|^2)`,

        .. math:: E\|\nabla f\|^2 = \tfrac1n \|D^{1/2}(A u + r)\|^2, \qquad
                  v = \nabla F = \tfrac1n A^\top A u,

        because :math:`A^\top r = 0`. As :math:`A u = n U S^{-1} V v`, the first is
        :math:`\|B V v + q\|^2` for :math:`B = \sqrt n D^{1/2} U S^{-1}` and
        :math:`q = D^{1/2} r / \sqrt n`. A singular value decomposition of B = X K Y makes it
        diagonal: :math:`k_j = K_j^2`, :math:`p_j = K_j x_j^\top q`, :math:`c_0 = \|q\|^2`.
        """
        U, S, _ = self._svd
        lengths = np.sqrt(self._row_sqnorms)
        B = np.sqrt(self.n) * lengths[:, None] * U / S
        X, K, _ = np.linalg.svd(B, full_matrices=False)
        q = lengths * self.residuals / np.sqrt(self.n)
        return K**2, K * (X.T @ q), float(q @ q)
