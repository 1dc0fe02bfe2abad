"""Least squares in kernels."""

import math
from typing import Any, NamedTuple

import numpy as np

from heavystep.arrays import Array
from heavystep.problems import LeastSquares
from heavystep.simulation.fours import WIDTH, four_of_row, put_four
from heavystep.simulation.kernel_cache import inner_kernel, inner_reduction
from heavystep.simulation.lanes import aligned, has_lanes
from heavystep.simulation.terms import (
    adds_up,
    depart,
    evaluate,
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
    workspace,
)


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


@inner_reduction
def row_dot(A: Any, i: Any, theta: Any) -> Any:
    """Inner product of row i with theta. A view of the row would be reference-counted."""
    total = 0.0
    for j in range(theta.shape[0]):
        total += A[i, j] * theta[j]
    return total


@inner_reduction
def row_dot_moved(A: Any, i: Any, theta: Any, g: Any, t: Any) -> Any:
    """Inner product of row i with theta - t g."""
    total = 0.0
    for j in range(theta.shape[0]):
        total += A[i, j] * (theta[j] - t * g[j])
    return total


@inner_kernel
def write_row(share: Any, A: Any, i: Any, g: Any) -> None:
    """Write ``share`` times row i."""
    whole = g.shape[0] // WIDTH * WIDTH
    for j in range(0, whole, WIDTH):
        put_four(g, j, share * four_of_row(A, i, j))
    for j in range(whole, g.shape[0]):
        g[j] = share * A[i, j]


def _evaluate(terms: Any, theta: Any, batch: Any, g: Any, work: Any) -> Any:
    size, dim = batch.shape[0], theta.shape[0]
    loss, low = 0.0, 0.0
    for b in range(size):
        i = batch[b]
        residual = row_dot(terms.A, i, theta) - terms.b[i]
        loss += 0.5 * residual * residual
        low += terms.f_star[i]
        share = shared(residual, size)
        if b == 0:
            write_row(share, terms.A, i, g)
        else:
            for j in range(dim):
                g[j] += share * terms.A[i, j]
    return shared(loss, size), shared(low, size), np.nan


def _trial_loss(terms: Any, theta: Any, g: Any, t: Any, batch: Any, work: Any) -> Any:
    loss = 0.0
    for i in batch:
        residual = row_dot_moved(terms.A, i, theta, g, t) - terms.b[i]
        loss += 0.5 * residual * residual
    return shared(loss, batch.shape[0])


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
        depart: no_departure,
        objective_gap: _gap,
        full_sqnorm: _full_sqnorm,
    },
)
has_lanes(LeastSquaresTerms)
