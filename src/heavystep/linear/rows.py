"""Sparse rows from what scikit-learn hands over, and a column for the intercept."""

from typing import Any

import numpy as np
import scipy.sparse

from heavystep.arrays import Array
from heavystep.linear.kernels import append_column, in_order
from heavystep.sparse import SparseRows


def csr_arrays(matrix: Any) -> tuple[Array, Array, Array]:
    """Where rows begin (int64), columns (int32, ascending) and values of a CSR matrix.

    The entries are not copied, unless some add up or a row is out of order.
    """
    orderly = matrix.indices.dtype == np.int32 and in_order(
        matrix.indptr, matrix.indices, matrix.shape[1]
    )
    if not orderly:
        entries = (matrix.data, matrix.indices, matrix.indptr)
        # Made anew, because what a matrix says of its order may be out of date.
        matrix = scipy.sparse.csr_array(entries, shape=matrix.shape)
        matrix.check_format(full_check=True)  # what follows reads the arrays without looking
        if not matrix.has_canonical_format:
            matrix = matrix.copy()  # the user's entries stay as they are
            matrix.sum_duplicates()
    return (
        matrix.indptr.astype(np.int64, copy=False),
        matrix.indices.astype(np.int32, copy=False),
        np.ascontiguousarray(matrix.data),
    )


def dense_entries(matrix: Array) -> tuple[Array, Array, Array]:
    """The same of a dense matrix; zeros are stored, too: to find them costs more than it saves."""
    n, dim = matrix.shape
    columns = np.tile(np.arange(dim, dtype=np.int32), n)
    return np.arange(n + 1) * dim, columns, np.ravel(matrix)


def sparse_rows(matrix: Any) -> SparseRows:
    """Rows of a dense array or a CSR matrix.

    >>> sparse_rows(np.array([[1.0, 2.0], [0.0, 3.0]])).indices.tolist()
    [0, 1, 0, 1]
    """
    sparse = scipy.sparse.issparse(matrix)
    return SparseRows(*(csr_arrays if sparse else dense_entries)(matrix), matrix.shape[1])


def with_intercept(rows: SparseRows, scale: float) -> SparseRows:
    """The rows with one more column, which holds ``scale`` in every row.

    >>> with_intercept(SparseRows.from_dense([[3.0], [0.0]]), 2.0).dot(np.array([1.0, 10.0]))
    array([23., 20.])
    """
    size = len(rows.values) + rows.n
    indices, values = np.empty(size, np.int32), np.empty(size, rows.values.dtype)
    starts = rows.indptr.view(np.uint64)
    append_column(starts, rows.indices, rows.values, rows.dim, scale, indices, values)
    indptr = rows.indptr + np.arange(rows.n + 1)
    return SparseRows.unchecked(indptr, indices, values, rows.dim + 1)
