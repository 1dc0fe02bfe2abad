r"""An estimate of the Hessian, which gives the directions of the search on all rows their lengths.

With up to ``LIMIT`` parameters it is the matrix of a sample of the rows. A sample may miss rare
columns, so that its rows and columns are scaled to the diagonal of the Hessian of all rows, and
entries beside the diagonal shrunk by :math:`\sqrt{k_i k_j / ((k_i + 1)(k_j + 1))}`, where
:math:`k_j` counts the entries of column j in the sample. With more parameters it is the diagonal.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from heavystep.arrays import Array
from heavystep.linear import kernels
from heavystep.linear.objective import Objective, Point
from heavystep.sparse import SparseRows

LIMIT = 512
"""The most parameters for which a matrix is factored."""
ROWS, ROWS_A_PARAMETER, PASSES = 1024, 10, 2.0
"""The matrix is made of so many rows at least, in all and for each parameter; and of so many more
as cost about as much as this many passes over half of the entries."""


class Sample(NamedTuple):
    """Some rows."""

    places: Array
    """Their places among all rows, ascending."""
    rows: SparseRows
    """Themselves, in the parameters' units and with the intercept's column."""
    order: Array
    """A random order of them."""
    whole: bool
    """Whether these are all rows that have a weight."""


class Curvature:
    """An estimate of the Hessian at a point that can be divided by.

    Args:
        objective: the function.
        point: where.
        sample: rows to look at.
        more: how many times as many as at first.
    """

    def __init__(self, objective: Objective, point: Point, sample: Sample, more: int = 1) -> None:
        curvatures, p = objective.curvatures(point), len(point.theta)
        weights = objective.weights[sample.places]
        self._sample, self._penalties = sample, objective.penalties
        self._shares = curvatures[sample.places] / weights.sum()
        counts, diagonal = self._columns()
        if not counts.all() and not objective.columns.alike and not sample.whole:
            diagonal = objective.diagonal(curvatures)  # nobody knows the units of unseen columns
        self._factor: Array | None = None
        if p <= LIMIT:
            chosen = sample.order[: _rows_used(objective, sample, more)]
            shares = self._shares[chosen] * (weights.sum() / weights[chosen].sum())
            matrix = hessian(sample.rows, chosen, shares)
            matrix[np.diag_indices(p)] += objective.penalties
            if not sample.whole or len(chosen) < sample.rows.n:
                _fit(matrix, diagonal, counts * (len(chosen) / sample.rows.n))
            diagonal = np.diag(matrix)
        self.diagonal = np.where(diagonal > 0.0, diagonal, 1.0)  # 0: a column without entries
        if p <= LIMIT:
            self._root = np.sqrt(self.diagonal)
            self._factor = _factor(matrix / (self._root[:, None] * self._root))

    def _columns(self) -> tuple[Array, Array]:
        """How many entries each column has in the sample, and the diagonal of its Hessian.

        The diagonal is enlarged as if each column had one entry more: rare ones had luck.
        """
        rows, whole = self._sample.rows, self._shares
        counts, squares = np.zeros(rows.dim), np.zeros(rows.dim)
        indptr, indices = rows.indptr.view(np.uint64), rows.indices.view(np.uint32)
        kernels.column_sums(indptr, indices, rows.values, whole, counts, squares)
        typical = squares.sum() / max(counts.sum(), 1.0)
        one_more = np.where(counts > 0.0, squares / np.maximum(counts, 1.0), typical)
        return counts, squares + one_more + self._penalties

    @property
    def rough(self) -> bool:
        """Whether it is a diagonal only."""
        return self._factor is None

    def solve(self, vector: Array) -> Array:
        """The inverse times a vector."""
        if self._factor is None:
            divided: Array = vector / self.diagonal
            return divided
        inner: Array = dpotrs(self._factor, vector / self._root, lower=1)[0]
        return inner / self._root

    def along(self, step: Array) -> float:
        """The second derivative along a step, by the sample."""
        rows, products = self._sample.rows, np.empty(self._sample.rows.n)
        indptr, indices = rows.indptr.view(np.uint64), rows.indices.view(np.uint32)
        kernels.row_products(indptr, indices, rows.values, step, products)
        return float(self._shares @ products**2 + self._penalties @ step**2)


def hessian(rows: SparseRows, chosen: Array, curvatures: Array) -> Array:
    """The sum of c_k a_i a_i' over some rows, i = chosen[k].

    Args:
        rows: a_i, whose columns ascend.
        chosen: which of them.
        curvatures: c_k.

    >>> rows = SparseRows.from_dense([[1.0, 2.0], [0.0, 3.0]])
    >>> hessian(rows, np.arange(2), np.array([1.0, 2.0])).tolist()
    [[1.0, 2.0], [2.0, 22.0]]
    """
    if len(rows.values) == rows.n * rows.dim:  # no holes
        matrix = rows.values.reshape(rows.n, rows.dim)[chosen].astype(np.float64, copy=False)
        product: Array = (matrix * curvatures[:, None]).T @ matrix
        return product
    lower = np.zeros((rows.dim, rows.dim))
    indptr, indices = rows.indptr.view(np.uint64), rows.indices.view(np.uint32)
    kernels.outer_products(indptr, indices, rows.values, chosen, curvatures, lower)
    return lower + np.tril(lower, -1).T


def _rows_used(objective: Objective, sample: Sample, more: int) -> int:
    n, parameters = objective.table.n, sample.rows.dim
    entries = max(1.0, len(sample.rows.values) / sample.rows.n)
    wanted = max(ROWS, ROWS_A_PARAMETER * parameters, int(PASSES * n / entries))
    return min(more * wanted, sample.rows.n)


def _fit(matrix: Array, diagonal: Array, counts: Array) -> None:
    """Scale the sample's matrix to the diagonal of all rows, and shrink what is beside it."""
    own = np.diag(matrix)
    scale = np.sqrt(diagonal / np.where(own > 0.0, own, 1.0) * (counts / (counts + 1.0)))
    matrix *= scale[:, None] * scale
    matrix[np.diag_indices(len(matrix))] = diagonal


def _factor(matrix: Array) -> Array:
    """Cholesky's factor of a matrix with ones on the diagonal, or of one that is nearly it."""
    ridge = 0.0
    if not np.isfinite(matrix).all():
        raise ValueError("features are too large, their squares are not finite: scale them")
    while True:
        matrix[np.diag_indices(len(matrix))] = 1.0 + ridge
        factor, failed = dpotrf(matrix, lower=1)
        if not failed:
            found: Array = factor
            return found
        ridge = max(1e-14, 10.0 * ridge)
