"""Passes over all rows, dense or sparse: loss and gradient, curvatures, and rows picked out.

A pass goes through the rows in blocks, so that a row is still in the cache when its share of the
gradient is added up. Rows are as the user has them; nothing is copied. All kernels are in this
file, because the cache of compiled kernels notices changes of a kernel's own file only.

What calls :mod:`heavystep.simulation.softplus` must not be a ``reduction``: numba compiles a kernel
with the freedoms of whoever calls it first, and the exponential rounds by adding and subtracting.
"""

from typing import Any

import numpy as np

from heavystep.simulation.kernel_cache import kernel, reduction
from heavystep.simulation.softplus import softplus_and_slope

BLOCK = 256
"""Rows in a block."""


@reduction
def _sparse_margin(indices: Any, values: Any, begin: Any, end: Any, w: Any) -> Any:
    score = 0.0
    for p in range(begin, end):
        score += values[p] * w[indices[p]]
    return score


@reduction
def _dense_margin(row: Any, w: Any) -> Any:
    score = 0.0
    for j in range(w.shape[0]):
        score += row[j] * w[j]
    return score


@kernel
def sparse_pass(
    indptr: Any, indices: Any, values: Any, signs: Any, weights: Any, w: Any, b: Any,
    margins: Any, gradient: Any,
) -> Any:  # fmt: skip
    """Sum of the weighted losses, and of their derivatives by b; fills margins and gradient."""
    losses, slopes, total, by_b = np.empty(BLOCK), np.empty(BLOCK), 0.0, 0.0
    for first in range(0, signs.shape[0], BLOCK):
        size = min(BLOCK, signs.shape[0] - first)
        for i in range(first, first + size):
            score = _sparse_margin(indices, values, indptr[i], indptr[i + 1], w)
            margins[i] = signs[i] * (score + b)
        softplus_and_slope(margins[first : first + size], losses, slopes)
        for i in range(first, first + size):
            total += weights[i] * losses[i - first]
            share = weights[i] * signs[i] * slopes[i - first]
            by_b += share
            for p in range(indptr[i], indptr[i + 1]):
                gradient[indices[p]] += share * values[p]
    return total, by_b


@kernel
def dense_pass(
    rows: Any, signs: Any, weights: Any, w: Any, b: Any, margins: Any, gradient: Any
) -> Any:
    """:func:`sparse_pass` on a dense matrix."""
    losses, slopes, total, by_b = np.empty(BLOCK), np.empty(BLOCK), 0.0, 0.0
    for first in range(0, signs.shape[0], BLOCK):
        size = min(BLOCK, signs.shape[0] - first)
        for i in range(first, first + size):
            margins[i] = signs[i] * (_dense_margin(rows[i], w) + b)
        softplus_and_slope(margins[first : first + size], losses, slopes)
        for i in range(first, first + size):
            total += weights[i] * losses[i - first]
            share = weights[i] * signs[i] * slopes[i - first]
            by_b += share
            for j in range(w.shape[0]):
                gradient[j] += share * rows[i, j]
    return total, by_b


@kernel
def line_slope(margins: Any, along: Any, weights: Any, t: Any) -> Any:
    """First and second derivative by t of the weighted losses at ``margins + t * along``."""
    moved, losses, slopes = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    slope, curvature = 0.0, 0.0
    for first in range(0, margins.shape[0], BLOCK):
        size = min(BLOCK, margins.shape[0] - first)
        for i in range(size):
            moved[i] = margins[first + i] + t * along[first + i]
        softplus_and_slope(moved[:size], losses, slopes)
        for i in range(size):
            each = weights[first + i] * slopes[i] * along[first + i]
            slope += each
            curvature -= each * (1.0 + slopes[i]) * along[first + i]
    return slope, curvature


@kernel
def row_curvatures(margins: Any, weights: Any, out: Any) -> None:
    """Weights times the second derivatives of the losses by their margins."""
    losses, slopes = np.empty(BLOCK), np.empty(BLOCK)
    for first in range(0, margins.shape[0], BLOCK):
        size = min(BLOCK, margins.shape[0] - first)
        softplus_and_slope(margins[first : first + size], losses, slopes)
        for i in range(size):
            out[first + i] = -weights[first + i] * slopes[i] * (1.0 + slopes[i])


@kernel
def sparse_squares(
    indptr: Any, indices: Any, values: Any, shift: Any, weights: Any, out: Any
) -> None:
    """Add the weighted squares of entries less ``shift`` of their column; only stored entries."""
    for i in range(weights.shape[0]):
        for p in range(indptr[i], indptr[i + 1]):
            distance = values[p] - shift[indices[p]]
            out[indices[p]] += weights[i] * distance * distance


@kernel
def column_sums(
    indptr: Any, indices: Any, values: Any, weights: Any, counts: Any, squares: Any
) -> None:
    """Add up how many entries each column has, and their weighted squares."""
    for i in range(weights.shape[0]):
        for p in range(indptr[i], indptr[i + 1]):
            counts[indices[p]] += 1.0
            squares[indices[p]] += weights[i] * values[p] * values[p]


@kernel
def dense_squares(rows: Any, shift: Any, weights: Any, out: Any) -> None:
    """:func:`sparse_squares` on a dense matrix."""
    for i in range(weights.shape[0]):
        for j in range(shift.shape[0]):
            distance = rows[i, j] - shift[j]
            out[j] += weights[i] * distance * distance


@kernel
def row_products(indptr: Any, indices: Any, values: Any, vector: Any, out: Any) -> None:
    """Inner product of each row with a vector."""
    for i in range(out.shape[0]):
        total = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            total += values[p] * vector[indices[p]]
        out[i] = total


@kernel
def outer_products(
    indptr: Any, indices: Any, values: Any, rows: Any, weights: Any, out: Any
) -> None:
    """Add the lower triangle of the sum of w_k a_i a_i', i = rows[k]; columns ascend in rows."""
    for k in range(rows.shape[0]):
        begin, end = indptr[rows[k]], indptr[rows[k] + 1]
        for p in range(begin, end):
            share = weights[k] * values[p]
            for q in range(begin, p + 1):
                out[indices[p], indices[q]] += share * values[q]


@kernel
def take_rows(
    indptr: Any, indices: Any, values: Any, rows: Any,
    new_indptr: Any, new_indices: Any, new_values: Any,
) -> None:  # fmt: skip
    """Copy some rows; ``new_indptr`` is there already. All indices are unsigned."""
    for k in range(rows.shape[0]):
        begin, end, new = indptr[rows[k]], indptr[rows[k] + np.uint64(1)], new_indptr[k]
        for p in range(begin, end):
            new_indices[new + (p - begin)] = indices[p]
            new_values[new + (p - begin)] = values[p]


@kernel
def append_column(
    indptr: Any, indices: Any, values: Any, column: Any, value: Any,
    new_indices: Any, new_values: Any,
) -> None:  # fmt: skip
    """Copy rows and put one more entry at the end of each. All indices are unsigned."""
    for i in range(np.uint64(indptr.shape[0] - 1)):
        for p in range(indptr[i], indptr[i + np.uint64(1)]):
            new_indices[p + i] = indices[p]
            new_values[p + i] = values[p]
        last = indptr[i + np.uint64(1)] + i
        new_indices[last] = column
        new_values[last] = value


@kernel
def in_order(indptr: Any, indices: Any, dim: Any) -> bool:
    """Whether every row lies within the arrays and its columns ascend from 0 to ``dim - 1``."""
    n, entries = indptr.shape[0] - 1, indices.shape[0]
    if indptr[0] != 0 or indptr[n] != entries:
        return False
    for i in range(n):
        if indptr[i + 1] < indptr[i] or indptr[i + 1] > entries:
            return False
    falls = 0
    for p in range(1, entries):
        falls += indices[p] <= indices[p - 1]
    wrong = 0
    for i in range(n):
        begin, end = indptr[i], indptr[i + 1]
        if begin < end:
            wrong += (indices[begin] < 0) + (indices[end - 1] >= dim)
            falls -= begin > 0 and indices[begin] <= indices[begin - 1]  # from row to row
    return wrong == 0 and falls == 0
