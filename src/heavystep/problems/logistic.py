"""Logistic regression with exact constants, and on sparse rows for the linear kernels."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from heavystep.arrays import Array, inner
from heavystep.problems.base import EPS, FiniteSum, Problem, finite_array, frozen, start
from heavystep.validation import POSITIVE, real


def softplus(x: Array) -> Array:
    """log(1 + exp(x)), without overflow and exact in both tails."""
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow and exact in both tails."""
    tail = np.exp(-np.abs(x))
    return np.where(x >= 0.0, 1.0, tail) / (1.0 + tail)


def penalised_minimum(r: Array) -> Array:
    r"""Minimum over x of :math:`\log(1 + e^{-x}) + x^2 / (2r)`, r = ||a||^2 / l2 >= 0.

    The minimiser solves g(x) = x - r / (1 + e^x) = 0. On x >= 0 g increases and is concave, so
    Newton's method from the left of the root approaches it monotonically. The start is left of it:
    as :math:`1/(1 + e^x) \ge e^{-x}/2`, the root is at least the W with :math:`W e^W = z = r/2`,
    which is at least :math:`z/(1 + z)`, and :math:`\log z - \log\log z` for z >= e.
    """
    z = 0.5 * r
    log_z = np.log(np.maximum(z, np.e))
    x = np.maximum(z / (1.0 + z), np.where(z >= np.e, log_z - np.log(log_z), 0.0))
    # 12 steps are twice what any r between 1e-300 and 1e300 needs.
    for _ in range(12):
        p = sigmoid(-x)
        x = x - (x - r * p) / (1.0 + r * p * (1.0 - p))
    # x^2 / (2r) = x p / 2 at the root, and this form also holds for r = 0.
    return softplus(-x) + 0.5 * x * sigmoid(-x)


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
        l2: penalty, > 0, with which there is one minimiser.
        theta0: (d,) where runs start; zeros by default.

    >>> problem = LogisticRegression([[1.0], [2.0], [4.0]], [1, -1, 1], l2=0.5)
    >>> problem.L, problem.mu, float(problem.theta_star[0].round(6))
    (4.5, 0.5, 0.231942)
    """

    A: Array
    y: Array
    l2: float
    theta0: Array
    convex = True
    version: ClassVar[int] = 1

    def __init__(
        self, A: ArrayLike, y: ArrayLike, l2: float, theta0: ArrayLike | None = None
    ) -> None:
        rows = finite_array("A", A, (None, None))
        n, dim = rows.shape
        labels = binary(y, n, "the rows of A")
        real("l2", l2, POSITIVE)
        first = start(theta0, np.zeros(dim), "the columns of A")
        self.__dict__.update(A=rows, y=labels, l2=float(l2), theta0=first, n=n)

    @cached_property
    def _row_sqnorms(self) -> Array:
        return inner(self.A, self.A)

    def _margins(self, theta: Array, i: Array) -> Array:
        margins: Array = self.y[i] * inner(self.A[i], theta)
        return margins

    def _penalty(self, theta: Array) -> Array:
        return 0.5 * self.l2 * inner(theta, theta)

    def losses(self, theta: Array, i: Array) -> Array:
        return softplus(-self._margins(theta, i)) + self._penalty(theta)

    def gradients(self, theta: Array, i: Array) -> Array:
        weights = self.y[i] * sigmoid(-self._margins(theta, i))
        gradients: Array = self.l2 * theta - weights[..., None] * self.A[i]
        return gradients

    def objective(self, theta: Array) -> Array:
        mean: Array = np.mean(softplus(-self.y * (theta @ self.A.T)), axis=-1)
        return mean + self._penalty(theta)

    def full_gradient(self, theta: Array) -> Array:
        weights = self.y * sigmoid(-self.y * (theta @ self.A.T))
        gradient: Array = self.l2 * theta - weights @ self.A / self.n
        return gradient

    def gap(self, theta: Array) -> Array:
        r"""F - F* as the Bregman distance to the minimiser, with an error of order eps |u|.

        With :math:`u_i` the margins of :math:`\theta` less those of :math:`\theta^\star` and
        :math:`p_i = 1/(1 + e^{m_i^\star})`, it is the mean of
        :math:`\log(1 + p_i (e^{-u_i} - 1)) + p_i u_i`, plus the penalty of
        :math:`\theta - \theta^\star`.
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

    @cached_property
    def L(self) -> float:
        r"""Exact: the second derivative of the loss is at most 1/4, with equality at margin 0."""
        return float(self._row_sqnorms.max() / 4.0 + self.l2)

    @cached_property
    def mu(self) -> float:
        """Exact: the penalty. The losses are flat far from 0."""
        return self.l2

    @cached_property
    def f_star(self) -> Array:
        """Exact: only the part of theta along a_i matters."""
        return frozen(penalised_minimum(self._row_sqnorms / self.l2))

    @cached_property
    def theta_star(self) -> Array:
        """The minimiser."""
        return frozen(fit_logistic(self.y[:, None] * self.A, self.l2))

    @cached_property
    def rho(self) -> float:
        r"""Valid, not the smallest: L / mu; see :attr:`delta`."""
        return self.L / self.mu

    @cached_property
    def delta(self) -> float:
        r"""Valid for :attr:`rho`, not the smallest: :math:`2 L \sigma^2`.

        One gradient step of length 1/L lowers a term by at least
        :math:`\|\nabla f_i\|^2 / (2L)`, and never below :math:`f_i^\star`; the mean over i is

        .. math:: E\|\nabla f\|^2 \le 2L (F - \overline{f^\star})
                  = 2L (F - F^\star) + 2L\sigma^2 \le (L/\mu)\|\nabla F\|^2 + 2L\sigma^2,

        the last step by strong convexity.
        """
        return 2.0 * self.L * self.sigma2


def binary(y: ArrayLike, n: int, why: str) -> Array:
    """Labels, refused unless each is -1 or +1."""
    labels = finite_array("y", y, (n,), why)
    found = np.unique(labels)
    if not np.isin(found, (-1.0, 1.0)).all():
        shown = ", ".join(f"{value:g}" for value in found[:5])
        raise ValueError(f"y must hold labels -1 and +1 only, found {shown}")
    return labels


def fit_logistic(Z: Array, l2: float) -> Array:
    r"""The minimiser of :math:`\frac1n\sum_i \log(1 + e^{-z_i^\top\theta})` plus penalty.

    Newton's method from 0. Let :math:`\delta` be Newton's step and :math:`r = \max_i |z_i^\top
    \delta|` the most it changes a margin. As :math:`|\ell^{(3)}| \le \ell^{(2)}`, F falls along
    :math:`t\delta` by at least :math:`\Delta^2 (t - (e^{rt} - 1 - rt)/r^2)`, which is largest at
    :math:`t = \log(1 + r)/r`: the step taken, with no line search, from anywhere.
    """
    n, dim = Z.shape
    scale = 1.0 / np.sqrt(np.mean(Z**2, 0) + l2)  # better conditioned in these coordinates
    rows, penalty = Z * scale, np.diag(l2 * scale * scale)
    point, change = np.zeros(dim), np.inf
    for _ in range(1000):
        margins = rows @ point
        p, q = sigmoid(-margins), sigmoid(margins)
        hessian = (rows * (p * q)[:, None]).T @ rows / n + penalty
        gradient = penalty @ point - p @ rows / n
        # Not `solve`: with a tiny penalty a direction without data may be lost to rounding.
        step = np.linalg.lstsq(hessian, -gradient, rcond=dim * EPS)[0]
        last, change = change, float(np.abs(rows @ step).max())
        if last <= 1e-9:  # what is left after one more step is at rounding level
            theta: Array = scale * (point + step)
            if stationary(theta, Z, l2):
                return theta
            break
        point = point + (1.0 if change <= 1e-9 else np.log1p(change) / change) * step
    raise ValueError(f"no minimiser to working precision for l2 = {l2:g}: use a larger one")


def stationary(theta: Array, Z: Array, l2: float) -> bool:
    """True if each partial derivative of F is at the rounding level of its summands."""
    n, dim = Z.shape
    size, margins = np.abs(Z), Z @ theta
    p, q = sigmoid(-margins), sigmoid(margins)
    gradient = l2 * theta - p @ Z / n
    # The margins err by about eps |Z| |theta|, which moves the weights p by p q times that.
    summands = l2 * np.abs(theta) + (p + p * q * (size @ np.abs(theta))) @ size / n
    return bool(np.all(np.abs(gradient) <= 10 * (dim + np.sqrt(n)) * EPS * summands))


def row_norms(rows: Any) -> Array:
    """(n,) Euclidean length of each row of a sparse matrix in CSR format."""
    row, largest = row_of_entries(rows), np.zeros(rows.shape[0])
    np.maximum.at(largest, row, np.abs(rows.data))
    # Squares of parts of the largest entry neither overflow nor vanish.
    parts = rows.data / np.where(largest > 0.0, largest, 1.0)[row]
    lengths: Array = largest * np.sqrt(np.bincount(row, parts * parts, minlength=len(largest)))
    return lengths


def row_of_entries(rows: Any) -> Array:
    """The row that each entry of a sparse matrix in CSR format belongs to."""
    return np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))


@dataclass(frozen=True, init=False, eq=False)
class SparseLogistic(Problem):
    r"""Weighted logistic regression on sparse rows: one term for each row.

    .. math:: F(\theta) = \frac{\sum_i w_i \log(1 + e^{-m_i})}{\sum_i w_i}
              + \frac12 \sum_j \lambda_j \theta_j^2, \qquad m_i = y_i a_i^\top\theta

    with :math:`\lambda_j` = ``l2``. Term i has weight :math:`w_i` over the mean weight, so that F
    is the mean of the terms.

    Args:
        rows: features a_i, a sparse matrix or array of scipy; a copy in CSR format is kept.
        y: (n,) labels, -1 or +1.
        l2: penalty, >= 0: one number, or (d,) one for each parameter.
        weights: (n,) weights, >= 0 and not all 0; None: all are equal.

    >>> from scipy.sparse import csr_array
    >>> problem = SparseLogistic(csr_array([[1.0, 0.0], [0.0, 2.0]]), [1, -1])
    >>> problem.L, float(problem.objective(problem.theta0).round(6))
    (1.0, 0.693147)
    """

    rows: Any
    y: Array
    l2: Array
    weights: Array
    convex = True
    version: ClassVar[int] = 1

    def __init__(
        self, rows: Any, y: ArrayLike, l2: ArrayLike = 0.0, weights: ArrayLike | None = None
    ) -> None:
        if not hasattr(rows, "tocsr"):
            raise TypeError(f"rows must be a sparse matrix of scipy, got {type(rows).__name__}")
        rows = rows.tocsr().astype(np.float64, copy=True)
        rows.check_format(full_check=True)  # kernels read the arrays without looking
        rows.sum_duplicates()
        finite_array("rows", rows.data, (None,))
        n, dim = rows.shape
        labels = binary(y, n, "the rows")
        penalties = finite_array("l2", np.broadcast_to(np.asarray(l2), (dim,)), (dim,))
        if penalties.min() < 0.0:
            raise ValueError(f"l2 must be >= 0, got {penalties.min()}")
        weight = finite_array("weights", np.ones(n) if weights is None else weights, (n,), "rows")
        if weight.min() < 0.0 or weight.max() == 0.0:
            got = f"got numbers from {weight.min()} to {weight.max()}"
            raise ValueError(f"weights must be >= 0 and not all 0, {got}")
        weight = weight if weights is None else frozen(weight / weight.mean())
        parts = {"rows": rows, "y": labels, "l2": penalties, "weights": weight}
        self.__dict__.update(parts, n=n, theta0=frozen(np.zeros(dim)))

    @cached_property
    def L(self) -> float:
        """Largest smoothness constant of a term; see :class:`LogisticRegression`."""
        return float((self.weights * row_norms(self.rows) ** 2).max() / 4.0 + self.l2.max())

    @cached_property
    def f_star(self) -> Array:
        """(n,) lower bounds of log(1 + e^-m): 0, and log 2 for an empty row, whose margin is 0."""
        return frozen(np.where(np.diff(self.rows.indptr) > 0, 0.0, np.log(2.0)))

    def objective(self, theta: Array) -> Array:
        losses = softplus(-self.y * (self.rows @ theta))
        value: Array = np.mean(self.weights * losses) + 0.5 * (self.l2 @ theta**2)
        return value

    def full_gradient(self, theta: Array) -> Array:
        slopes = -self.y * self.weights * sigmoid(-self.y * (self.rows @ theta))
        gradient: Array = self.rows.T @ (slopes / self.n) + self.l2 * theta
        return gradient
