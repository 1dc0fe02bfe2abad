"""Logistic regression on sparse rows in kernels.

The margins of a batch are linear in the step: at theta - t g they are m_i - t (a_i . g). After one
more pass over the rows of the batch, every trial of a line search costs O(batch), whatever the
number of entries and parameters.
"""

from typing import Any, NamedTuple

import numpy as np

from heavystep.arrays import Array
from heavystep.problems import SparseLogistic
from heavystep.simulation.kernel_cache import inner_kernel, inner_reduction, kernel
from heavystep.simulation.lanes import has_lanes
from heavystep.simulation.prefetch import prefetch
from heavystep.simulation.softplus import softplus_and_slope, softplus_minus
from heavystep.simulation.terms import (
    adds_up,
    depart,
    dot,
    evaluate,
    implement,
    loss_error,
    no_departure,
    objective,
    plain_error,
    prepare_search,
    trial_loss,
    workspace,
)
from heavystep.sparse import SparseRows

AHEAD = 8
"""How many rows before its use the processor begins to load a row; it must know by then where that
is, for which it has as long again."""
VALUES_LINE, INDICES_LINE = 8, 16
"""Entries in one cache line, of float64 and of uint32; smaller types have more."""
BLOCK = 256
"""Rows of which the full loss is computed at once."""


class LogisticTerms(NamedTuple):
    """Data of :class:`SparseLogistic`. Unsigned indices need no check for negative ones."""

    indptr: Array
    indices: Array
    values: Array
    """Rows times their labels, y_i a_i, so that margins are plain inner products."""
    weights: Array
    f_star: Array
    penalties: Array
    """(d,) penalties of the parameters; empty if there are none."""


class LogisticWork(NamedTuple):
    """One batch's numbers."""

    weights: Array
    """Weights of the rows, divided by the size of the batch."""
    margins: Array
    losses: Array
    slopes: Array
    """Derivatives of the losses by their margins."""
    along: Array
    """y_i a_i . g: how fast each margin falls along the trial."""
    moved: Array
    """Margins at the trial."""
    products: Array
    """theta . theta and theta . g and g . g, weighted with the penalties."""
    block_margins: Array
    """The margins of a block of rows, for the full loss."""
    block_losses: Array


def logistic_terms(problem: SparseLogistic) -> LogisticTerms:
    """The problem, laid out for its kernels."""
    rows = problem.rows
    indptr, signed = rows.indptr.view(np.uint64), np.empty_like(rows.values)
    _sign_rows(indptr, rows.values, problem.y, signed)
    return LogisticTerms(
        indptr,
        _narrow(rows),
        signed,
        np.array(problem.weights),
        np.array(problem.f_star),
        np.array(problem.l2) if problem.largest_penalty > 0.0 else np.empty(0),
    )


def _narrow(rows: SparseRows) -> Array:
    """Column indices of two bytes each where that is enough, because kernels wait for memory."""
    if rows.dim <= 1 << 16:
        return rows.indices.astype(np.uint16)
    return rows.indices.view(np.uint32)


def mean_square_length(rows: SparseRows, weights: Array) -> float:
    """Weighted mean of the rows' squared lengths.

    >>> mean_square_length(SparseRows.from_dense([[3.0, 4.0], [0.0, 1.0]]), np.array([1.0, 3.0]))
    7.0
    """
    total = _weighted_squares(rows.indptr.view(np.uint64), rows.values, weights)
    return float(total / weights.sum())


@inner_reduction
def _weighted_squares(indptr: Any, values: Any, weights: Any) -> Any:
    total = 0.0
    for i in range(weights.shape[0]):
        square = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            square += values[p] * values[p]
        total += weights[i] * square
    return total


@kernel
def _sign_rows(indptr: Any, values: Any, y: Any, out: Any) -> None:
    for i in range(y.shape[0]):
        sign = values.dtype.type(y[i])
        for p in range(indptr[i], indptr[i + 1]):
            out[p] = sign * values[p]


@inner_reduction
def weighted_dot(weights: Any, x: Any, y: Any) -> Any:
    """Inner product of two vectors with weights."""
    total = 0.0
    for j in range(x.shape[0]):
        total += weights[j] * x[j] * y[j]
    return total


@inner_kernel
def row_product(terms: Any, i: Any, vector: Any) -> Any:
    """y_i a_i . vector."""
    total = 0.0
    for p in range(terms.indptr[i], terms.indptr[i + 1]):
        total += terms.values[p] * vector[terms.indices[p]]
    return total


@inner_kernel
def _announce(terms: Any, i: Any) -> None:
    """Begin to load row i."""
    first, last = terms.indptr[i], terms.indptr[i + 1]
    for p in range(first, last, VALUES_LINE):
        prefetch(terms.values, p)
    for p in range(first, last, INDICES_LINE):
        prefetch(terms.indices, p)
    # A row seldom begins with a line, and so may end in one more.
    prefetch(terms.values, last - 1)
    prefetch(terms.indices, last - 1)


@inner_kernel
def _announce_place(terms: Any, i: Any) -> None:
    """Begin to load what says where row i is, and its other numbers."""
    prefetch(terms.indptr, i)
    prefetch(terms.weights, i)
    prefetch(terms.f_star, i)


def _workspace(terms: Any, theta: Any, size: Any) -> Any:
    lanes = theta.shape[0]
    return LogisticWork(
        np.empty((lanes, size)),
        np.empty((lanes, size)),
        np.empty((lanes, size)),
        np.empty((lanes, size)),
        np.empty((lanes, size)),
        np.empty((lanes, size)),
        np.empty((lanes, 3)),
        np.empty((lanes, BLOCK)),
        np.empty((lanes, BLOCK)),
    )


def _adds_up(terms: Any) -> Any:
    return True


def _evaluate(terms: Any, theta: Any, batch: Any, g: Any, work: Any) -> Any:
    size = batch.shape[0]
    for b in range(min(2 * AHEAD, size)):
        _announce_place(terms, batch[b])
    for b in range(min(AHEAD, size)):
        _announce(terms, batch[b])
    low = 0.0
    for b in range(size):
        if b + 2 * AHEAD < size:
            _announce_place(terms, batch[b + 2 * AHEAD])
        if b + AHEAD < size:
            _announce(terms, batch[b + AHEAD])
        work.margins[b] = row_product(terms, batch[b], theta)
        work.weights[b] = terms.weights[batch[b]] / size
        low += work.weights[b] * terms.f_star[batch[b]]
    softplus_and_slope(work.margins, work.losses, work.slopes)
    for b in range(size):
        i = batch[b]
        share = g.dtype.type(work.weights[b] * work.slopes[b])
        for p in range(terms.indptr[i], terms.indptr[i + 1]):
            g[terms.indices[p]] += share * terms.values[p]
    loss = dot(work.weights, work.losses)
    if terms.penalties.shape[0] > 0:
        work.products[0] = weighted_dot(terms.penalties, theta, theta)
        loss += 0.5 * work.products[0]
        for j in range(theta.shape[0]):
            g[j] += g.dtype.type(terms.penalties[j]) * theta[j]
    return loss, low, np.nan


def _prepare_search(terms: Any, theta: Any, g: Any, batch: Any, work: Any) -> Any:
    for b in range(batch.shape[0]):
        work.along[b] = row_product(terms, batch[b], g)
    if terms.penalties.shape[0] > 0:
        work.products[1] = weighted_dot(terms.penalties, theta, g)
        work.products[2] = weighted_dot(terms.penalties, g, g)
    return 0


def _trial_loss(terms: Any, theta: Any, g: Any, t: Any, batch: Any, work: Any) -> Any:
    for b in range(batch.shape[0]):
        work.moved[b] = work.margins[b] - t * work.along[b]
    softplus_minus(work.moved, work.losses)
    loss = dot(work.weights, work.losses)
    if terms.penalties.shape[0] > 0:
        here, cross, square = work.products
        loss += 0.5 * (here - t * (2.0 * cross - t * square))
    return loss


def _objective(terms: Any, point: Any, work: Any) -> Any:
    total, n = 0.0, terms.weights.shape[0]
    margins, losses = work.block_margins, work.block_losses
    for first in range(0, n, BLOCK):
        size = min(BLOCK, n - first)
        for b in range(size):
            margins[b] = row_product(terms, first + b, point)
        softplus_minus(margins[:size], losses)
        total += dot(terms.weights[first : first + size], losses)
    penalty = 0.0
    if terms.penalties.shape[0] > 0:
        penalty = 0.5 * weighted_dot(terms.penalties, point, point)
    return total / n + penalty


implement(
    LogisticTerms,
    {
        workspace: _workspace,
        evaluate: _evaluate,
        adds_up: _adds_up,
        loss_error: plain_error,
        prepare_search: _prepare_search,
        trial_loss: _trial_loss,
        depart: no_departure,
        objective: _objective,
    },
)
has_lanes(LogisticTerms)
has_lanes(LogisticWork, *LogisticWork._fields)
