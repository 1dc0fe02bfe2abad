"""Columns of sparse rows: how large their entries are, and how they are rescaled."""

from typing import Any, NamedTuple

import numpy as np

from heavystep.arrays import Array
from heavystep.simulation.kernel_cache import kernel
from heavystep.sparse import SparseRows


class Moments(NamedTuple):
    """Weighted sums over the entries of each column that are not 0."""

    weight: Array
    mean: Array
    square: Array
    """Mean of the squares."""
    spread: Array
    """Mean of the squared distances from the mean."""


def column_moments(rows: SparseRows, weights: Array, every: int = 1) -> Moments:
    """Moments of each column; 0 for a column without entries.

    Args:
        rows: the matrix.
        weights: (n,) weights of its rows, >= 0.
        every: 1 looks at all rows, 2 at every other row, and so on.

    >>> rows = SparseRows.from_dense([[1.0, 0.0], [3.0, 4.0]])
    >>> column_moments(rows, np.array([1.0, 1.0])).mean.tolist()
    [2.0, 4.0]
    """
    total, first, second, spread = (np.zeros(rows.dim) for _ in range(4))
    data = (rows.indptr.view(np.uint64), rows.indices.view(np.uint32), rows.values)
    _sum_entries(*data, weights, every, total, first, second)
    safe = np.where(total > 0.0, total, 1.0)
    # Squared distances from the mean, because the difference of two large means of squares would
    # lose a small spread.
    _sum_distances(*data, weights, every, first / safe, spread)
    return Moments(total, first / safe, second / safe, spread / safe)


def transformed(rows: SparseRows, shift: Array, scale: Array) -> SparseRows:
    """Rows in which the entries x of column j are (x - shift_j) scale_j.

    Entries that are not stored stay 0.

    >>> rows = SparseRows.from_dense([[1.0, 0.0], [3.0, 4.0]])
    >>> transformed(rows, np.array([2.0, 0.0]), np.array([10.0, 0.5])).values.tolist()
    [-10.0, 10.0, 2.0]
    """
    values = np.empty_like(rows.values)
    _transform(rows.indices.view(np.uint32), rows.values, shift, scale, values)
    return SparseRows(rows.indptr, rows.indices, values, rows.dim)


@kernel
def _sum_entries(
    indptr: Any,
    indices: Any,
    values: Any,
    weights: Any,
    every: Any,
    total: Any,
    first: Any,
    second: Any,
) -> None:
    for i in range(0, weights.shape[0], every):
        for p in range(indptr[i], indptr[i + 1]):
            j, x = indices[p], float(values[p])
            if x != 0.0:
                total[j] += weights[i]
                first[j] += weights[i] * x
                second[j] += weights[i] * x * x


@kernel
def _sum_distances(
    indptr: Any, indices: Any, values: Any, weights: Any, every: Any, mean: Any, spread: Any
) -> None:
    for i in range(0, weights.shape[0], every):
        for p in range(indptr[i], indptr[i + 1]):
            j, x = indices[p], float(values[p])
            if x != 0.0:
                spread[j] += weights[i] * (x - mean[j]) * (x - mean[j])


@kernel
def _transform(indices: Any, values: Any, shift: Any, scale: Any, out: Any) -> None:
    for p in range(values.shape[0]):
        j = indices[p]
        out[p] = (values[p] - shift[j]) * scale[j]
