"""The least time that a step can take on one core, from its operations and its memory traffic.

What a core can do is measured in the same run: floating-point operations on numbers that stay in
registers, and bytes between registers and the nearest cache. Nothing reaches both at once, or waits
for nothing, so that this is a bound and no aim.
"""

from typing import Any, NamedTuple

import numpy as np

from heavystep.bench.timing import best_of
from heavystep.problems import Cosine, SparseLogistic
from heavystep.simulation.kernel_cache import kernel, polynomial

NUMBER = 8
"""Bytes."""
DEGREE, ENTRIES, ROUNDS = 32, 512, 2000
SINE = 50
"""Operations for a sine and a cosine by polynomials; see :mod:`heavystep.simulation.sine`."""
SOFTPLUS = 75
"""Operations for a logistic loss and its slope; see :mod:`heavystep.simulation.softplus`."""


class Work(NamedTuple):
    """What one step does."""

    operations: float
    bytes: float


class Limits(NamedTuple):
    """What one core can do in a nanosecond."""

    operations: float
    bytes: float

    def bound(self, work: Work) -> float:
        """The least nanoseconds for some work."""
        return max(work.operations / self.operations, work.bytes / self.bytes)


def measured_limits() -> Limits:
    """The limits of a core of this machine."""
    x, y = np.linspace(0.0, 0.5, ENTRIES), np.zeros(ENTRIES)
    _polynomials(x, y, 1)
    _sums(x, y, 1)
    counted = 2.0 * DEGREE * ENTRIES * ROUNDS
    moved = 3.0 * NUMBER * ENTRIES * ROUNDS
    return Limits(
        counted / best_of(lambda: _polynomials(x, y, ROUNDS)) / 1e9,
        moved / best_of(lambda: _sums(x, y, ROUNDS)) / 1e9,
    )


def work_of(problem: Any, trials: float, size: int = 1) -> Work:
    """What one step of heavy ball does on a problem.

    Args:
        problem: least squares, the cosine problem, or sparse logistic regression.
        trials: of a step, on average.
        size: of its batch.
    """
    d = problem.dim
    # Two products, a difference and a sum; point, buffer and gradient are read, two are written.
    move = Work(4.0 * d, 5.0 * NUMBER * d)
    if isinstance(problem, SparseLogistic):
        entries = size * len(problem.rows.values) / problem.n
        # The inner products, and the gradient, which is cleared and squared.
        operations = 4.0 * entries + SOFTPLUS * size + 2.0 * d
        search = (2.0 * entries + SOFTPLUS * size * trials) * (trials > 0)
        traffic = 2.0 * (NUMBER + 2.0) * entries + 2.0 * NUMBER * d
        return Work(operations + search + move.operations, traffic + move.bytes)
    # The row with the point, the gradient and its square; the mean of the points.
    operations, traffic = (5.0 + 3.0) * d, (6.0 + 3.0) * NUMBER * d
    each = Work(4.0 * d, 3.0 * NUMBER * d)
    if isinstance(problem, Cosine):
        operations, each = operations + (SINE + 9.0) * d, Work((SINE + 8.0) * d, each.bytes)
    return Work(
        operations + move.operations + trials * each.operations,
        traffic + move.bytes + trials * each.bytes,
    )


@polynomial
def _polynomials(x: Any, y: Any, rounds: Any) -> None:
    for _ in range(rounds):
        for j in range(x.shape[0]):
            value = x[j]
            for _ in range(DEGREE):
                value = value * x[j] + 0.25
            y[j] = value


@kernel
def _sums(x: Any, y: Any, rounds: Any) -> None:
    for number in range(rounds):
        for j in range(x.shape[0]):
            y[j] += number * x[j]
