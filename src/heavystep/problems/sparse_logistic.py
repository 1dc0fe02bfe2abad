"""Logistic regression on sparse rows, for the linear kernels of the simulation."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from heavystep.arrays import Array
from heavystep.problems.base import finite_array, frozen, shaped
from heavystep.problems.logistic import sigmoid, softplus
from heavystep.sparse import SparseRows


@dataclass(frozen=True, init=False, eq=False)
class SparseLogistic:
    r"""Weighted logistic regression: one term for each row.

    .. math:: F(\theta) = \frac{\sum_i w_i \log(1 + e^{-m_i})}{\sum_i w_i}
              + \frac12 \sum_j \lambda_j \theta_j^2, \qquad m_i = y_i a_i^\top\theta

    with :math:`\lambda_j` = ``l2``. Term i has weight :math:`w_i` over the mean weight, so that F
    is the mean of the terms.

    Args:
        rows: features a_i.
        y: (n,) labels, -1 or +1.
        l2: penalty, >= 0: one number, or (d,) one for each parameter.
        weights: (n,) weights, >= 0 and not all 0; None: all are equal.

    Raises:
        ValueError: a label is neither -1 nor +1, a number is out of range, or lengths disagree.

    >>> rows = SparseRows.from_dense([[1.0, 0.0], [0.0, 2.0]])
    >>> problem = SparseLogistic(rows, [1, -1])
    >>> problem.L, float(problem.objective(problem.theta0).round(6))
    (1.0, 0.693147)
    """

    rows: SparseRows
    y: Array
    l2: Array
    weights: Array
    convex = True
    version: ClassVar[int] = 1
    """Raised when the same arguments would give other numbers; part of the key of stored runs."""

    def __init__(
        self, rows: SparseRows, y: ArrayLike, l2: ArrayLike = 0.0, weights: ArrayLike | None = None
    ) -> None:
        labels = finite_array("y", y, ndim=1)
        shaped("y", labels, (rows.n,), f"{rows.n} rows")
        if not np.isin(labels, (-1.0, 1.0)).all():
            raise ValueError("y must hold labels -1 and +1 only")
        penalties = finite_array("l2", np.broadcast_to(l2, (rows.dim,)), ndim=1, empty=True)
        if (penalties < 0.0).any():
            raise ValueError(f"l2 must be >= 0, got {penalties.min()}")
        weight = finite_array("weights", np.ones(rows.n) if weights is None else weights, ndim=1)
        shaped("weights", weight, (rows.n,), f"{rows.n} rows")
        if weight.min() < 0.0 or weight.max() == 0.0:
            got = f"got numbers from {weight.min()} to {weight.max()}"
            raise ValueError(f"weights must be >= 0 and not all 0, {got}")
        weight = weight if weights is None else frozen(weight / weight.mean())
        self.__dict__.update(rows=rows, y=labels, l2=penalties, weights=weight)

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.rows.n

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return self.rows.dim

    @property
    def theta0(self) -> Array:
        """Where runs start: zeros, in the number format of the rows."""
        return np.zeros(self.dim, dtype=self.rows.values.dtype)

    @cached_property
    def L(self) -> float:
        """Largest smoothness constant of a term; see :class:`LogisticRegression`."""
        return float((self.weights * self.rows.norms() ** 2).max() / 4.0) + self.largest_penalty

    @property
    def largest_penalty(self) -> float:
        """The largest of ``l2``."""
        return float(self.l2.max(initial=0.0))

    @cached_property
    def f_star(self) -> Array:
        """(n,) lower bounds of log(1 + e^-m): 0, and log 2 for an empty row, whose margin is 0."""
        return frozen(np.where(np.diff(self.rows.indptr) > 0, 0.0, np.log(2.0)))

    def margins(self, theta: Array) -> Array:
        """(n,) margins m_i."""
        margins: Array = self.y * self.rows.dot(theta)
        return margins

    def objective(self, theta: Array) -> Array:
        """F at one point."""
        mean = np.mean(self.weights * softplus(-self.margins(theta)))
        value: Array = mean + 0.5 * (self.l2 @ theta**2)
        return value

    def full_gradient(self, theta: Array) -> Array:
        """Gradient of F at one point."""
        shares = -self.y * self.weights * sigmoid(-self.margins(theta)) / self.n
        entries = shares[self.rows.row_of_entries()] * self.rows.values
        sums = np.bincount(self.rows.indices, entries, minlength=self.dim)
        gradient: Array = sums + self.l2 * theta
        return gradient
