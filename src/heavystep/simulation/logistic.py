"""Logistic regression on sparse rows in kernels.

The margins of a batch are linear in the step: at theta - t g they are m_i - t (a_i . g). After one
more pass over the rows of the batch, every trial of a line search costs O(batch), whatever the
number of entries and parameters.
"""

from typing import Any, NamedTuple

import numpy as np

from heavystep.arrays import Array
from heavystep.problems import SparseLogistic
from heavystep.simulation.full_logistic import (
    BlockWork,
    block_workspace,
    objective_of_one,
    objectives_of_all,
    product_between,
    weighted_dot,
)
from heavystep.simulation.kernel_cache import inner_kernel, inner_reduction, kernel
from heavystep.simulation.lanes import aligned_empty, has_lanes
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
    objectives,
    plain_error,
    prepare_search,
    trial_loss,
    workspace,
)
from heavystep.sparse import SparseRows

HEAD = 4
BEGIN, END, WEIGHT, F_STAR = range(HEAD)
AHEAD = 8
"""How many rows before its use the processor begins to load a row; it must know by then where that
is, for which it has as long again."""
VALUES_LINE, INDICES_LINE = 8, 16
"""Entries in one cache line, of float64 and of uint32; smaller types have more."""


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
    heads: Array
    """(n, 4) where each row begins and ends, and the bits of its weight and of its f_star: a row
    that is sampled finds all of them in one line of the cache."""


class LogisticWork(NamedTuple):
    """One batch's numbers."""

    begin: Array
    """Where its rows begin, and where they end."""
    end: Array
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
    blocks: BlockWork
    """For the full loss."""


def logistic_terms(problem: SparseLogistic) -> LogisticTerms:
    """The problem, laid out for its kernels."""
    rows = problem.rows
    indptr, signed = rows.indptr.view(np.uint64), np.empty_like(rows.values)
    _sign_rows(indptr, rows.values, problem.y, signed)
    weights, f_star = np.array(problem.weights), np.array(problem.f_star)
    heads = aligned_empty((rows.n, HEAD), np.uint64)
    _write_heads(indptr, weights.view(np.uint64), f_star.view(np.uint64), heads)
    return LogisticTerms(
        indptr,
        _narrow(rows),
        signed,
        weights,
        f_star,
        np.array(problem.l2) if problem.largest_penalty > 0.0 else np.empty(0),
        heads,
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


@kernel
def _write_heads(indptr: Any, weights: Any, f_star: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        out[i, BEGIN], out[i, END] = indptr[i], indptr[i + 1]
        out[i, WEIGHT], out[i, F_STAR] = weights[i], f_star[i]


@inner_kernel
def _announce(terms: Any, i: Any) -> None:
    """Begin to load row i."""
    first, last = terms.heads[i, BEGIN], terms.heads[i, END]
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
    prefetch(terms.heads, HEAD * i)


@inner_kernel
def _number(head: Any) -> Any:
    """A number from its bits."""
    return np.uint64(head).view(np.float64)


def _workspace(terms: Any, theta: Any, size: Any) -> Any:
    lanes = theta.shape[0]
    return LogisticWork(
        np.empty((lanes, size), dtype=np.uint64),
        np.empty((lanes, size), dtype=np.uint64),
        np.empty((lanes, size)),
        np.empty((lanes, size)),
        np.empty((lanes, size)),
        np.empty((lanes, size)),
        np.empty((lanes, size)),
        np.empty((lanes, size)),
        np.empty((lanes, 3)),
        block_workspace(theta),
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
        head = terms.heads[batch[b]]
        work.begin[b], work.end[b] = head[BEGIN], head[END]
        work.margins[b] = product_between(terms, head[BEGIN], head[END], theta)
        work.weights[b] = _number(head[WEIGHT]) / size
        low += work.weights[b] * _number(head[F_STAR])
    softplus_and_slope(work.margins, work.losses, work.slopes)
    for b in range(size):
        share = g.dtype.type(work.weights[b] * work.slopes[b])
        for p in range(work.begin[b], work.end[b]):
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
        work.along[b] = product_between(terms, work.begin[b], work.end[b], g)
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
        objective: objective_of_one,
        objectives: objectives_of_all,
    },
)
has_lanes(LogisticTerms)
has_lanes(LogisticWork, *LogisticWork._fields[:-1], nested=("blocks",))
