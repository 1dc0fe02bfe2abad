"""All rows as the user has them, dense or sparse, behind the same few sums."""

from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse

from heavystep.arrays import Array
from heavystep.linear import kernels
from heavystep.linear.rows import csr_arrays, dense_entries
from heavystep.sparse import SparseRows


class Sums(NamedTuple):
    """What one pass over the rows finds at w and b."""

    loss: float
    """Weighted sum of the losses."""
    gradient: Array
    """Its derivatives by w."""
    by_intercept: float
    """Its derivative by b."""
    margins: Array
    """(n,) y_i (x_i . w + b)."""


class Table(Protocol):
    """Rows of features; nothing in them is changed or, as far as possible, copied."""

    n: int
    dim: int
    dtype: Any

    def sums(self, signs: Array, weights: Array, w: Array, b: float) -> Sums:
        """One pass: losses log(1 + e^-m) with weights, and their derivatives."""

    def squares(self, shift: Array, weights: Array) -> Array:
        """(dim,) weighted sums of (x_ij - shift_j)^2 over stored entries."""

    def take(self, rows: Array) -> SparseRows:
        """Some rows, in ascending order; not to be written to."""

    def stored_everywhere(self, columns: Array) -> Array:
        """Which of some columns have a stored entry in every row."""


class SparseTable:
    """A CSR matrix."""

    def __init__(self, matrix: Any) -> None:
        self.n, self.dim = matrix.shape
        indptr, indices, self.values = csr_arrays(matrix)
        self.dtype = self.values.dtype
        # Unsigned indices need no check for negative ones.
        self.indptr, self.indices = indptr.view(np.uint64), indices.view(np.uint32)

    def sums(self, signs: Array, weights: Array, w: Array, b: float) -> Sums:
        """See :class:`Table`."""
        margins, gradient = np.empty(self.n), np.zeros(self.dim)
        loss, by_intercept = kernels.sparse_pass(
            self.indptr, self.indices, self.values, signs, weights, w, b, margins, gradient
        )
        return Sums(loss, gradient, by_intercept, margins)

    def squares(self, shift: Array, weights: Array) -> Array:
        """See :class:`Table`."""
        out = np.zeros(self.dim)
        kernels.sparse_squares(self.indptr, self.indices, self.values, shift, weights, out)
        return out

    def take(self, rows: Array) -> SparseRows:
        """See :class:`Table`."""
        starts = self.indptr.view(np.int64)
        if len(rows) == self.n:
            return SparseRows.unchecked(starts, self.indices.view(np.int32), self.values, self.dim)
        indptr = np.concatenate([[0], np.cumsum(starts[rows + 1] - starts[rows])])
        indices = np.empty(indptr[-1], dtype=np.int32)
        values = np.empty(indptr[-1], dtype=self.dtype)
        places, ends = rows.view(np.uint64), indptr.view(np.uint64)
        kernels.take_rows(
            self.indptr, self.indices, self.values, places, ends, indices.view(np.uint32), values
        )
        return SparseRows.unchecked(indptr, indices, values, self.dim)

    def stored_everywhere(self, columns: Array) -> Array:
        """See :class:`Table`."""
        counts = np.bincount(self.indices.view(np.int32), minlength=self.dim)
        full: Array = counts[columns] == self.n
        return full


class DenseTable:
    """A dense matrix."""

    def __init__(self, matrix: Array) -> None:
        self.n, self.dim = matrix.shape
        self.rows = np.ascontiguousarray(matrix)
        self.dtype = matrix.dtype

    def sums(self, signs: Array, weights: Array, w: Array, b: float) -> Sums:
        """See :class:`Table`."""
        margins, gradient = np.empty(self.n), np.zeros(self.dim)
        loss, by_intercept = kernels.dense_pass(self.rows, signs, weights, w, b, margins, gradient)
        return Sums(loss, gradient, by_intercept, margins)

    def squares(self, shift: Array, weights: Array) -> Array:
        """See :class:`Table`."""
        out = np.zeros(self.dim)
        kernels.dense_squares(self.rows, shift, weights, out)
        return out

    def take(self, rows: Array) -> SparseRows:
        """See :class:`Table`."""
        some = self.rows if len(rows) == self.n else self.rows[rows]
        return SparseRows.unchecked(*dense_entries(some), self.dim)

    def stored_everywhere(self, columns: Array) -> Array:
        """See :class:`Table`."""
        return np.ones(len(columns), dtype=bool)


def table_of(matrix: Any) -> Table:
    """The table of a dense array or a CSR matrix."""
    return SparseTable(matrix) if scipy.sparse.issparse(matrix) else DenseTable(matrix)
