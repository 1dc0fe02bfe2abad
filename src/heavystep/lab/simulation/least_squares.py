"""Least squares in kernels."""

import math
from typing import Any, NamedTuple

import numpy as np

from heavystep.arrays import Array, square
from heavystep.lab.simulation.compiling import part
from heavystep.lab.simulation.kernels import (
    Kernels,
    NoWork,
    no_departure,
    no_preparation,
    not_measured,
    plain_error,
    row_dot,
    row_dot_moved,
)
from heavystep.problems import LeastSquares


class LeastSquaresData(NamedTuple):
    """Data of :class:`LeastSquares`."""

    A: Array
    b: Array
    f_star: Array
    squares: Array
    """(n,) squared lengths of the rows."""
    root: Array
    """R with F - F* = ||R (theta - theta*)||^2."""
    theta_star: Array


def least_squares_data(problem: LeastSquares) -> LeastSquaresData:
    """The problem, laid out for its kernels."""
    _, S, V = np.linalg.svd(problem.A, full_matrices=False)
    root = S[:, None] * V / math.sqrt(2 * problem.n)
    squares = square(problem.A)
    arrays = (problem.A, problem.b, problem.f_star, squares, root, problem.theta_star)
    return LeastSquaresData(*(np.array(array, order="C") for array in arrays))


@part
def _evaluate(data: Any, theta: Any, batch: Any, g: Any, work: Any) -> Any:
    size, loss, low, sqnorm = batch.shape[0], 0.0, 0.0, np.nan
    for b in range(size):
        i = batch[b]
        residual = row_dot(data.A, i, theta) - data.b[i]
        loss += 0.5 * residual * residual
        low += data.f_star[i]
        if b == 0:
            for j in range(theta.shape[0]):
                g[j] = residual * data.A[i, j]
        else:
            for j in range(theta.shape[0]):
                g[j] += residual * data.A[i, j]
    if size > 1:
        for j in range(theta.shape[0]):
            g[j] /= size
        loss /= size
        low /= size
    else:
        sqnorm = 2.0 * loss * data.squares[batch[0]]
    return loss, low, sqnorm, np.nan


@part
def _trial(data: Any, theta: Any, way: Any, t: Any, batch: Any, work: Any) -> Any:
    loss = 0.0
    for b in range(batch.shape[0]):
        i = batch[b]
        residual = row_dot_moved(data.A, i, theta, way, t) - data.b[i]
        loss += 0.5 * residual * residual
    return loss / batch.shape[0] if batch.shape[0] > 1 else loss


@part
def _gap(data: Any, point: Any, work: Any) -> Any:
    gap = 0.0
    for i in range(data.root.shape[0]):
        image = 0.0
        for j in range(point.shape[0]):
            image += data.root[i, j] * (point[j] - data.theta_star[j])
        gap += image * image
    return gap


LEAST_SQUARES = Kernels(
    name="least squares",
    workspace=lambda data, size: NoWork(np.empty(0)),
    evaluate=_evaluate,
    prepare=no_preparation,
    trial=_trial,
    measure=_gap,
    full_sqnorm=not_measured,
    error=plain_error,
    depart=no_departure,
)
