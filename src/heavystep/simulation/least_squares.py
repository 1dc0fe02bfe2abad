"""Least squares in kernels."""

import math
from typing import Any, NamedTuple

import numpy as np

from heavystep.arrays import Array
from heavystep.problems import LeastSquares
from heavystep.simulation.addresses import (
    four_from,
    hidden,
    index_from,
    number_from,
    put,
    row_of,
    start_of,
)
from heavystep.simulation.fours import WIDTH
from heavystep.simulation.kernel_cache import loop_part
from heavystep.simulation.lanes import aligned, has_lanes
from heavystep.simulation.sums import all_summed, four_rows, product, product_moved, summed
from heavystep.simulation.terms import (
    adds_up,
    depart,
    evaluate,
    evaluate_all,
    from_scratch,
    full_sqnorm,
    implement,
    loss_error,
    no_departure,
    no_preparation,
    no_workspace,
    objective_gap,
    plain_error,
    prepare_search,
    shared,
    trial_loss,
    trial_losses,
    workspace,
)
from heavystep.simulation.truths import as_four
from heavystep.simulation.widths import four_of, parts


class LeastSquaresTerms(NamedTuple):
    """Data of :class:`LeastSquares`."""

    A: Array
    b: Array
    f_star: Array
    root: Array
    """R with F - F* = ||R (theta - theta*)||^2."""
    theta_star: Array


def least_squares_terms(problem: LeastSquares) -> LeastSquaresTerms:
    """The problem, laid out for its kernels."""
    _, S, V = np.linalg.svd(problem.A, full_matrices=False)
    root = S[:, None] * V / math.sqrt(2 * problem.n)
    arrays = (problem.A, problem.b, problem.f_star, root, problem.theta_star)
    return LeastSquaresTerms(*map(aligned, arrays))


@loop_part
def row_dot(A: Any, i: Any, theta: Any) -> Any:
    """Inner product of row i with theta."""
    return summed(product, (row_of(A, i), start_of(theta)), theta.shape[0])


@loop_part
def row_dot_moved(A: Any, i: Any, theta: Any, g: Any, t: Any) -> Any:
    """Inner product of row i with theta - t g."""
    data = row_of(A, i), start_of(theta), start_of(g), t
    return summed(product_moved, data, theta.shape[0])


@loop_part
def row_dots(rows: Any, theta: Any, lane: Any) -> Any:
    """Inner products of a row for each of four seeds, by their addresses, with its theta."""
    (h, i, j, k), (a, b, c, d) = rows, four_rows(theta, lane)
    return all_summed(product, (h, a), (i, b), (j, c), (k, d), theta.shape[1])


@loop_part
def row_dots_moved(rows: Any, theta: Any, g: Any, t: Any, lane: Any) -> Any:
    """The same with theta - t g."""
    (h, i, j, k), (p, q, r, s) = rows, parts(t)
    (a, b, c, d), (w, x, y, z) = four_rows(theta, lane), four_rows(g, lane)
    return all_summed(
        product_moved, (h, a, w, p), (i, b, x, q), (j, c, y, r), (k, d, z, s), theta.shape[1]
    )


@loop_part
def rows_of(batch: Any, lane: Any, b: Any) -> Any:
    """Entry b of the batches of four seeds."""
    h, i, j, k = four_rows(batch, lane)
    return index_from(h, b), index_from(i, b), index_from(j, b), index_from(k, b)


@loop_part
def picked(numbers: Any, rows: Any) -> Any:
    """The numbers of four terms."""
    first, (h, i, j, k) = start_of(numbers), rows
    return four_of(
        number_from(first, h), number_from(first, i), number_from(first, j), number_from(first, k)
    )


@loop_part
def rows_at(matrix: Any, rows: Any) -> Any:
    """The addresses of the rows of four terms."""
    h, i, j, k = rows
    return row_of(matrix, h), row_of(matrix, i), row_of(matrix, j), row_of(matrix, k)


@loop_part
def add_row(share: Any, row: Any, g: Any, dim: Any, b: Any) -> None:
    """Add ``share`` times row b of a batch to the gradient, or write it there if b is 0."""
    dim = hidden(dim)
    whole = dim // WIDTH * WIDTH
    if hidden(b) == 0:
        j = 0
        while j < whole:
            put(g, j, share * four_from(row, j))
            j = hidden(j + WIDTH)
        j = whole
        while j < dim:
            put(g, j, share * number_from(row, j))
            j = hidden(j + 1)
    else:
        j = 0
        while j < dim:
            put(g, j, number_from(g, j) + share * number_from(row, j))
            j = hidden(j + 1)


@loop_part
def add_rows(shares: Any, rows: Any, g: Any, dim: Any, b: Any) -> None:
    """The same for four seeds."""
    dim, (p, q, r, s), (h, i, k, l), (t, u, v, w) = hidden(dim), parts(shares), rows, g  # noqa: E741
    if hidden(b) > 0 or dim % WIDTH > 0:
        add_row(p, h, t, dim, b)
        add_row(q, i, u, dim, b)
        add_row(r, k, v, dim, b)
        add_row(s, l, w, dim, b)
        return
    j = 0
    while j < dim:
        put(t, j, p * four_from(h, j))
        put(u, j, q * four_from(i, j))
        put(v, j, r * four_from(k, j))
        put(w, j, s * four_from(l, j))
        j = hidden(j + WIDTH)


def _evaluate(terms: Any, theta: Any, batch: Any, g: Any, work: Any) -> Any:
    size, dim = hidden(batch.shape[0]), theta.shape[0]
    loss, low = 0.0, 0.0
    for b in range(size):
        i = batch[b]
        residual = row_dot(terms.A, i, theta) - terms.b[i]
        loss += 0.5 * residual * residual
        low += terms.f_star[i]
        add_row(shared(residual, size), row_of(terms.A, i), start_of(g), dim, b)
    return shared(loss, size), shared(low, size), np.nan


def _evaluate_all(terms: Any, theta: Any, batch: Any, g: Any, work: Any, lane: Any) -> Any:
    size, dim = hidden(batch.shape[1]), theta.shape[1]
    loss, low = as_four(0.0), as_four(0.0)
    for b in range(size):
        rows = rows_of(batch, lane, b)
        chosen = rows_at(terms.A, rows)
        residual = row_dots(chosen, theta, lane) - picked(terms.b, rows)
        loss += 0.5 * residual * residual
        low += picked(terms.f_star, rows)
        add_rows(shared(residual, size), chosen, four_rows(g, lane), dim, b)
    return shared(loss, size), shared(low, size), np.nan


def _trial_loss(terms: Any, theta: Any, g: Any, t: Any, batch: Any, work: Any) -> Any:
    loss = 0.0
    for i in batch:
        residual = row_dot_moved(terms.A, i, theta, g, t) - terms.b[i]
        loss += 0.5 * residual * residual
    return shared(loss, batch.shape[0])


def _trial_losses(terms: Any, theta: Any, g: Any, t: Any, batch: Any, work: Any, lane: Any) -> Any:
    size = hidden(batch.shape[1])
    loss = as_four(0.0)
    for b in range(size):
        rows = rows_of(batch, lane, b)
        chosen = rows_at(terms.A, rows)
        residual = row_dots_moved(chosen, theta, g, t, lane) - picked(terms.b, rows)
        loss += 0.5 * residual * residual
    return shared(loss, size)


def _gap(terms: Any, point: Any, work: Any) -> Any:
    gap = 0.0
    for row in terms.root:
        image = 0.0
        for j in range(point.shape[0]):
            image += row[j] * (point[j] - terms.theta_star[j])
        gap += image * image
    return gap


def _full_sqnorm(terms: Any, point: Any, work: Any) -> Any:
    return np.nan


implement(
    LeastSquaresTerms,
    {
        workspace: no_workspace,
        evaluate: _evaluate,
        adds_up: from_scratch,
        loss_error: plain_error,
        prepare_search: no_preparation,
        trial_loss: _trial_loss,
        evaluate_all: _evaluate_all,
        trial_losses: _trial_losses,
        depart: no_departure,
        objective_gap: _gap,
        full_sqnorm: _full_sqnorm,
    },
)
has_lanes(LeastSquaresTerms)
