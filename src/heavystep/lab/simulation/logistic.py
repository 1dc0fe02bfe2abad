r"""Logistic regression on sparse rows in kernels.

The margins of a batch are linear in the step: at theta - t g they are m_i - t (a_i . g). After one
more pass over the rows of the batch, every trial of a line search costs O(batch), whatever the
number of entries and parameters.

The compiler can evaluate polynomials for several margins at once, but not exp and log1p of the C
library. Both tails are exact, because with :math:`e = e^{-|m|}` in [0, 1]

.. math:: \log(1 + e^{-m}) = \max\{-m, 0\} + \log(1 + e), \qquad
          \frac{1}{1 + e^m} = \frac{1 \text{ or } e}{1 + e} .

A margin that is NaN gives NaN.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from heavystep.arrays import Array
from heavystep.lab.simulation.compiling import part, subroutine, total
from heavystep.lab.simulation.kernels import (
    Kernels,
    dot,
    no_departure,
    not_measured,
    plain_error,
)
from heavystep.problems import SparseLogistic

BLOCK = 256
"""Rows of which the full loss is computed at once."""
ROUND = 1.5 * 2.0**52
"""Adding and subtracting it rounds to a whole number, which is in the last bits of the sum."""
LOG2_E = 1.0 / math.log(2.0)
LN2_HIGH = float.fromhex("0x1.62e42feep-1")
LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
SMALLEST = -708.0
"""Below, e^x is not a normal number; it counts as 0."""
EXP = tuple(1.0 / math.factorial(degree) for degree in range(13, -1, -1))
"""Taylor coefficients, the highest degree first; the error for |r| <= ln(2) / 2 is less than half a
unit in the last place."""
ATANH = tuple(1.0 / (2 * degree + 1) for degree in range(17, -1, -1))
"""atanh(s) / s in powers of s^2 <= 1/9."""


@part
def _exp_of_negative(x: Any) -> Any:
    """e^x for x <= 0, as 2^n e^r with |r| <= ln(2) / 2."""
    shifted = x * LOG2_E + ROUND
    n = shifted - ROUND
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    series = EXP[0]
    series = (((series * r + EXP[1]) * r + EXP[2]) * r + EXP[3]) * r + EXP[4]
    series = (((series * r + EXP[5]) * r + EXP[6]) * r + EXP[7]) * r + EXP[8]
    series = (((series * r + EXP[9]) * r + EXP[10]) * r + EXP[11]) * r + EXP[12]
    series = series * r + EXP[13]
    power = np.int64((np.float64(shifted).view(np.int64) + 1023) << 52).view(np.float64)
    return 0.0 if x <= SMALLEST else series * power


@part
def _log1p_of_fraction(e: Any) -> Any:
    """log(1 + e) = 2 atanh(e / (2 + e)) for e in [0, 1]."""
    s = e / (2.0 + e)
    z = s * s
    series = ATANH[0]
    series = (((series * z + ATANH[1]) * z + ATANH[2]) * z + ATANH[3]) * z + ATANH[4]
    series = (((series * z + ATANH[5]) * z + ATANH[6]) * z + ATANH[7]) * z + ATANH[8]
    series = (((series * z + ATANH[9]) * z + ATANH[10]) * z + ATANH[11]) * z + ATANH[12]
    series = (((series * z + ATANH[13]) * z + ATANH[14]) * z + ATANH[15]) * z + ATANH[16]
    series = series * z + ATANH[17]
    return 2.0 * s * series


# A loop for each function: of a chain of operations as long as both together, the processor would
# have too few margins in sight to be always at work.


@subroutine
def write_losses(margins: Any, losses: Any) -> None:
    """Write log(1 + e^-m) for each margin m."""
    for b in range(margins.shape[0]):
        losses[b] = _exp_of_negative(-abs(margins[b]))
    for b in range(margins.shape[0]):
        losses[b] = max(-margins[b], 0.0) + _log1p_of_fraction(losses[b])


@subroutine
def write_losses_and_slopes(margins: Any, losses: Any, slopes: Any) -> None:
    """Write log(1 + e^-m) and its derivative -1 / (1 + e^m) for each margin m."""
    for b in range(margins.shape[0]):
        losses[b] = _exp_of_negative(-abs(margins[b]))
    for b in range(margins.shape[0]):
        e = losses[b]
        slopes[b] = -(e if margins[b] >= 0.0 else 1.0) / (1.0 + e)
    for b in range(margins.shape[0]):
        losses[b] = max(-margins[b], 0.0) + _log1p_of_fraction(losses[b])


class LogisticData(NamedTuple):
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
    """One batch's numbers, and those of a block of rows for the full loss."""

    weights: Array
    """Weights of the rows, divided by the size of the batch."""
    margins: Array
    losses: Array
    slopes: Array
    """Derivatives of the losses by their margins."""
    along: Array
    """y_i a_i . way: how fast each margin falls along the trial."""
    moved: Array
    """Margins at the trial."""
    products: Array
    """theta . theta and theta . way and way . way, weighted with the penalties."""
    block_margins: Array
    block_losses: Array


def logistic_data(problem: SparseLogistic) -> LogisticData:
    """The problem, laid out for its kernels."""
    rows = problem.rows
    values = rows.values.astype(np.float64) * problem.y[rows.row_of_entries()]
    return LogisticData(
        np.array(rows.indptr).view(np.uint64),
        # Two bytes each where that is enough, because kernels wait for memory.
        rows.indices.astype(np.uint16 if rows.dim <= 1 << 16 else np.uint32),
        values,
        np.array(problem.weights),
        np.array(problem.f_star),
        np.array(problem.l2) if problem.largest_penalty > 0.0 else np.empty(0),
    )


def _workspace(data: Any, size: int) -> LogisticWork:
    sizes = (size,) * 6 + (3, BLOCK, BLOCK)
    return LogisticWork(*(np.empty(each) for each in sizes))


@total
def _weighted_dot(weights: Any, x: Any, y: Any) -> Any:
    """Inner product of two vectors with weights."""
    result = 0.0
    for j in range(x.shape[0]):
        result += weights[j] * x[j] * y[j]
    return result


@part
def _row_product(data: Any, i: Any, vector: Any) -> Any:
    """y_i a_i . vector."""
    result = 0.0
    for p in range(data.indptr[i], data.indptr[i + 1]):
        result += data.values[p] * vector[data.indices[p]]
    return result


@part
def _evaluate(data: Any, theta: Any, batch: Any, g: Any, work: Any) -> Any:
    size, low = batch.shape[0], 0.0
    for b in range(size):
        i = batch[b]
        work.margins[b] = _row_product(data, i, theta)
        work.weights[b] = data.weights[i] / size
        low += work.weights[b] * data.f_star[i]
    write_losses_and_slopes(work.margins, work.losses, work.slopes)
    g[:] = 0.0
    for b in range(size):
        i, share = batch[b], work.weights[b] * work.slopes[b]
        for p in range(data.indptr[i], data.indptr[i + 1]):
            g[data.indices[p]] += share * data.values[p]
    loss = dot(work.weights, work.losses)
    if data.penalties.shape[0] > 0:
        work.products[0] = _weighted_dot(data.penalties, theta, theta)
        loss += 0.5 * work.products[0]
        for j in range(theta.shape[0]):
            g[j] += data.penalties[j] * theta[j]
    return loss, low, np.nan, np.nan


@part
def _prepare(data: Any, theta: Any, way: Any, batch: Any, work: Any) -> Any:
    for b in range(batch.shape[0]):
        work.along[b] = _row_product(data, batch[b], way)
    if data.penalties.shape[0] > 0:
        work.products[1] = _weighted_dot(data.penalties, theta, way)
        work.products[2] = _weighted_dot(data.penalties, way, way)
    return 0


@part
def _trial(data: Any, theta: Any, way: Any, t: Any, batch: Any, work: Any) -> Any:
    for b in range(batch.shape[0]):
        work.moved[b] = work.margins[b] - t * work.along[b]
    write_losses(work.moved, work.losses)
    loss = dot(work.weights, work.losses)
    if data.penalties.shape[0] > 0:
        here, cross, square = work.products[0], work.products[1], work.products[2]
        loss += 0.5 * (here - t * (2.0 * cross - t * square))
    return loss


@subroutine
def _objective(data: Any, point: Any, work: Any) -> Any:
    """F at a point."""
    result, n = 0.0, data.weights.shape[0]
    for first in range(0, n, BLOCK):
        size = min(BLOCK, n - first)
        margins, losses = work.block_margins[:size], work.block_losses[:size]
        for b in range(size):
            margins[b] = _row_product(data, first + b, point)
        write_losses(margins, losses)
        result += dot(data.weights[first : first + size], losses)
    result /= n
    if data.penalties.shape[0] > 0:
        result += 0.5 * _weighted_dot(data.penalties, point, point)
    return result


LOGISTIC = Kernels(
    name="logistic",
    workspace=_workspace,
    evaluate=_evaluate,
    prepare=_prepare,
    trial=_trial,
    measure=_objective,
    full_sqnorm=not_measured,
    error=plain_error,
    depart=no_departure,
)
