"""Sparse rows from what scikit-learn hands over, and a column for the intercept."""

from typing import Any

import numpy as np
import scipy.sparse

from heavystep.sparse import SparseRows


def sparse_rows(matrix: Any) -> SparseRows:
    """Rows of a dense array or a CSR matrix; the entries are not copied, unless some add up.

    >>> sparse_rows(np.array([[1.0, 2.0], [0.0, 3.0]])).indices.tolist()
    [0, 1, 0, 1]
    """
    n, dim = matrix.shape
    if scipy.sparse.issparse(matrix):
        entries = (matrix.data, matrix.indices, matrix.indptr)
        # Made anew, because what a matrix says of its order may be out of date.
        matrix = scipy.sparse.csr_array(entries, shape=matrix.shape)
        matrix.check_format(full_check=True)  # what follows reads the arrays without looking
        if not matrix.has_canonical_format:
            matrix = matrix.copy()  # the user's entries stay as they are
            matrix.sum_duplicates()
        indptr, indices, values = matrix.indptr, matrix.indices, matrix.data
    else:
        # Zeros are stored, too: to find them costs more than it saves.
        indptr, indices = np.arange(n + 1) * dim, np.tile(np.arange(dim, dtype=np.int32), n)
        values = np.ravel(matrix)
    return SparseRows(
        indptr.astype(np.int64, copy=False),
        indices.astype(np.int32, copy=False),
        np.ascontiguousarray(values),
        dim,
    )


def with_intercept(rows: SparseRows, scale: float) -> SparseRows:
    """The rows with one more column, which holds ``scale`` in every row.

    >>> with_intercept(SparseRows.from_dense([[3.0], [0.0]]), 2.0).dot(np.array([1.0, 10.0]))
    array([23., 20.])
    """
    ends = rows.indptr[1:]
    column = np.int32(rows.dim)
    return SparseRows(
        rows.indptr + np.arange(rows.n + 1),
        np.insert(rows.indices, ends, column),
        np.insert(rows.values, ends, rows.values.dtype.type(scale)),
        rows.dim + 1,
    )
