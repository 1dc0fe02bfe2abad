"""The full logistic loss in kernels: at the point of one seed, or at those of all seeds at once.

A full loss goes through all rows, and most of its time is spent on finding entries. Seeds that are
side by side share that: each entry meets the points of eight seeds, which lie beside each other.
A seed has the loss that it has alone, to the bit.
"""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from heavystep.arrays import Array
from heavystep.simulation.addresses import four_from, row_of
from heavystep.simulation.fours import WIDTH, in_doubles
from heavystep.simulation.kernel_cache import (
    HIDDEN,
    UNCOUNTED,
    inner_kernel,
    inner_reduction,
    kernel,
    subroutine,
)
from heavystep.simulation.lanes import has_lanes, lane_of
from heavystep.simulation.softplus import softplus_minus
from heavystep.simulation.sums import alone
from heavystep.simulation.terms import dot, objective
from heavystep.simulation.widths import parts

BLOCK = 256
"""Rows of which the loss is computed at once."""
EIGHT = 2 * WIDTH
"""Seeds whose margins are computed at once."""
_OPTIONS: Any = {**UNCOUNTED, **HIDDEN}


class BlockWork(NamedTuple):
    """The numbers of a block of rows; there are rows for whole eights of seeds."""

    margins: Array
    losses: Array
    points: Array
    """(eights, 8 d) parameter j of eight seeds beside each other; empty for one seed."""


@kernel
def block_workspace(theta: Any) -> Any:
    """Arrays for the full loss at the points of all seeds, in a kernel."""
    lanes = theta.shape[0]
    eights = 0 if lanes == 1 else (lanes + EIGHT - 1) // EIGHT
    rows = max(lanes, EIGHT * eights)
    points = np.zeros((eights, EIGHT * theta.shape[1]))
    return BlockWork(np.empty((rows, BLOCK)), np.empty((rows, BLOCK)), points)


@inner_reduction
def weighted_dot(weights: Any, x: Any, y: Any) -> Any:
    """Inner product of two vectors with weights."""
    total = 0.0
    for j in range(x.shape[0]):
        total += weights[j] * x[j] * y[j]
    return total


@inner_kernel
def product_between(terms: Any, first: Any, last: Any, vector: Any) -> Any:
    """y_i a_i . vector for the row whose entries are those from ``first`` up to ``last``."""
    total = 0.0
    for p in range(first, last):
        total += terms.values[p] * vector[terms.indices[p]]
    return total


@inner_kernel
def row_product(terms: Any, i: Any, vector: Any) -> Any:
    """y_i a_i . vector."""
    return product_between(terms, terms.indptr[i], terms.indptr[i + 1], vector)


@subroutine
def _block_loss(weights: Any, margins: Any, losses: Any) -> Any:
    """The weighted sum of a block's losses."""
    softplus_minus(margins, losses)
    return dot(weights, losses)


@inner_kernel
def _completed(terms: Any, total: Any, point: Any) -> Any:
    """F from the sum of all losses."""
    penalty = 0.0
    if terms.penalties.shape[0] > 0:
        penalty = 0.5 * weighted_dot(terms.penalties, point, point)
    return total / terms.weights.shape[0] + penalty


def objective_of_one(terms: Any, point: Any, work: Any) -> Any:
    """F at the point of one seed."""
    total, n = 0.0, terms.weights.shape[0]
    margins = work.blocks.margins
    for first in range(0, n, BLOCK):
        size = min(BLOCK, n - first)
        for b in range(size):
            margins[b] = row_product(terms, first + b, point)
        weights = terms.weights[first : first + size]
        total += _block_loss(weights, margins[:size], work.blocks.losses)
    return _completed(terms, total, point)


def objectives_of_all(terms: Any, theta: Any, work: Any, out: Any) -> Any:
    """F at the point of each seed."""
    _write_objectives(terms, theta, work, out)
    return 0


def _write_objectives(terms: Any, theta: Any, work: Any, out: Any) -> Any:
    raise NotImplementedError


@overload(_write_objectives, jit_options=_OPTIONS, strict=False)
def _choose(terms: Any, theta: Any, work: Any, out: Any) -> Any:
    values = terms.types[terms.fields.index("values")]
    return _together if in_doubles(theta, values) else _in_turns


def _in_turns(terms: Any, theta: Any, work: Any, out: Any) -> Any:
    for lane in range(theta.shape[0]):
        out[lane] = objective(terms, theta[lane], lane_of(work, lane))


def _together(terms: Any, theta: Any, work: Any, out: Any) -> Any:
    lanes, n, blocks = theta.shape[0], terms.weights.shape[0], work.blocks
    if lanes == 1:
        out[0] = objective(terms, theta[0], lane_of(work, 0))
        return
    for lane in range(lanes):
        out[lane] = 0.0
        for j in range(theta.shape[1]):
            blocks.points[lane // EIGHT, EIGHT * j + lane % EIGHT] = theta[lane, j]
    for first in range(0, n, BLOCK):
        size = min(BLOCK, n - first)
        for eight in range(blocks.points.shape[0]):
            for b in range(size):
                _eight_margins(terms, first + b, blocks, eight, b)
        weights = terms.weights[first : first + size]
        for lane in range(lanes):
            margins, losses = blocks.margins[lane], blocks.losses[lane]
            out[lane] += _block_loss(weights, margins[:size], losses)
    for lane in range(lanes):
        out[lane] = _completed(terms, out[lane], theta[lane])


@inner_kernel
def _eight_margins(terms: Any, i: Any, blocks: Any, eight: Any, b: Any) -> None:
    """Row i times the points of eight seeds: of each, what :func:`row_product` is."""
    points, first, last = row_of(blocks.points, eight), alone(0.0), alone(0.0)
    for p in range(terms.indptr[i], terms.indptr[i + 1]):
        value, place = terms.values[p], EIGHT * np.int64(terms.indices[p])
        first += value * four_from(points, place)
        last += value * four_from(points, place + WIDTH)
    lane = EIGHT * eight
    for margin in parts(first):
        blocks.margins[lane, b] = margin
        lane += 1
    for margin in parts(last):
        blocks.margins[lane, b] = margin
        lane += 1


has_lanes(BlockWork, "margins", "losses")
