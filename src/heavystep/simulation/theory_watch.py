"""What is measured along a run of a finite sum: the quantities of the paper's theorems.

Formulas are written once for one seed and for four (:mod:`heavystep.simulation.widths`).
"""

import math
from typing import Any, NamedTuple, Self

import numpy as np

from heavystep.arrays import Array
from heavystep.problems import FiniteSum
from heavystep.rules import minimum, some, where
from heavystep.simulation.addresses import hidden, put, row_of
from heavystep.simulation.configuration import EPS, Configuration
from heavystep.simulation.fours import WIDTH
from heavystep.simulation.kernel_cache import loop_part
from heavystep.simulation.lanes import has_lanes
from heavystep.simulation.sums import four_rows
from heavystep.simulation.terms import full_sqnorm, implement, objective_gap
from heavystep.simulation.watch import (
    nothing_together,
    watch_arrival,
    watch_point,
    watch_record,
    watch_step,
    watch_together,
)
from heavystep.simulation.widths import Four, One, column, entry, parts, put_column

TINY = float(np.finfo(np.float64).tiny)
ROUNDINGS = 64.0
BLUR = 1e-6
"""A step bound is looked at where rounding of the loss moves the step by less than this part."""
THEORY_METRICS = (
    "gap_average",
    "gap_last",
    "best",
    "best_after",
    "grad_last",
    "lowest",
    "highest",
    "trials",
)
"""What :class:`TheoryWatch` records at each point of the grid, after k steps."""
GAP_AVERAGE, GAP_LAST, BEST, BEST_AFTER, GRAD_LAST, LOWEST, HIGHEST, TRIALS, SUM_OF_WEIGHTS = range(
    9
)
LEAST, MOST, WEIGHT = range(3)


class TheoryWatch(NamedTuple):
    """Averages, running minima and step bounds of the paper's theorems."""

    average: Array
    numbers: Array
    """Metrics so far, in the order of :data:`THEORY_METRICS`, then the sum of the weights."""
    point_error: float
    """Rounding of a point, for the step bounds."""
    L: float
    ahead: Array
    """(steps, 3) for the steps of one call, or (1, 3) for all of them: gamma_min,k and gamma_max,k
    of Lemmas 2 and 5, NaN if no lemma covers the rule, and the weight of theta_{k+1} in the
    average."""
    weighted: bool
    """Whether these weights count; else the average is uniform, of theta_0 .. theta_k."""

    @classmethod
    def of(cls, problem: FiniteSum, L: float, configuration: Configuration) -> "TheoryWatch":
        """Nothing measured yet. ``L`` is the smoothness of the losses that the method sees."""
        numbers = np.zeros(len(THEORY_METRICS) + 1)
        numbers[[BEST, BEST_AFTER, LOWEST]] = math.inf
        if not configuration.rule.theory:
            numbers[[LOWEST, HIGHEST]] = math.nan
        size = np.linalg.norm(problem.theta0) + np.linalg.norm(problem.theta_star)
        error, ahead = ROUNDINGS * EPS * float(size), np.empty((0, 3))
        weighted = configuration.average == "weighted"
        return cls(np.zeros(problem.dim), numbers, error, L, ahead, weighted)

    def prepare(self, configuration: Configuration, first: int, count: int) -> Self:
        """Take in what the theory says of the next ``count`` steps."""
        ahead = np.ones((count, 3))
        ahead[:, LEAST], ahead[:, MOST] = configuration.step_bounds(self.L, first, count)
        if self.weighted:
            ahead[:, WEIGHT] = configuration.weights(self.L, first, count)
        return self._replace(ahead=ahead)


def _theory_point(watch: Any, width: Any, lane: Any, k: Any, theta: Any, full: Any) -> Any:
    _note_point(watch.numbers, width, lane, k, full)
    if hidden(watch.weighted) == 0:
        _include(watch.average, watch.numbers, width, lane, theta, 1.0)
    return 0


def _theory_step(
    watch: Any, width: Any, lane: Any, row: Any, search: Any, gamma: Any, seen: Any
) -> Any:
    _note_step(watch, width, lane, watch.ahead[row, LEAST], watch.ahead[row, MOST], search, seen)
    return 0


def _theory_arrival(watch: Any, width: Any, lane: Any, row: Any, theta: Any) -> Any:
    if hidden(watch.weighted) == 1:
        _include(watch.average, watch.numbers, width, lane, theta, watch.ahead[row, WEIGHT])
    return 0


@loop_part
def _note_point(numbers: Any, width: Any, lane: Any, k: Any, full: Any) -> None:
    """Running minima."""
    best = column(width, numbers, lane, BEST)
    put_column(width, numbers, lane, BEST, where(full < best, full, best))
    if k > 0:
        best = column(width, numbers, lane, BEST_AFTER)
        put_column(width, numbers, lane, BEST_AFTER, where(full < best, full, best))


@loop_part
def _note_step(
    watch: Any, width: Any, lane: Any, least: Any, most: Any, search: Any, seen: Any
) -> None:
    """Smallest step in units of gamma_min and largest in units of gamma_max (Lemmas 2, 5)."""
    numbers, point_error, step = watch.numbers, watch.point_error, search.step
    trials = column(width, numbers, lane, TRIALS)
    put_column(width, numbers, lane, TRIALS, trials + search.trials)
    highest, lowest = column(width, numbers, lane, HIGHEST), column(width, numbers, lane, LOWEST)
    higher, lower = step > highest * most, step < lowest * least
    if some(higher):
        put_column(width, numbers, lane, HIGHEST, where(higher, step / most, highest))
    if some(lower):
        error = ROUNDINGS * EPS * (abs(seen.loss) + abs(seen.lower_bound)) + TINY
        error += point_error * (math.sqrt(seen.grad_sqnorm) + watch.L * point_error)
        blur = BLUR * minimum(seen.loss - seen.lower_bound, least * seen.grad_sqnorm)
        sure = lower & (seen.grad_sqnorm > 0.0) & (error < blur)
        put_column(width, numbers, lane, LOWEST, where(sure, step / least, lowest))


@loop_part
def _include(average: Any, numbers: Any, width: Any, lane: Any, theta: Any, weight: Any) -> None:
    """One more point in the running average, by its difference from it."""
    total = column(width, numbers, lane, SUM_OF_WEIGHTS) + weight
    put_column(width, numbers, lane, SUM_OF_WEIGHTS, total)
    shift_rows(width, average, theta, lane, weight / total)


def shift_rows(width: Any, average: Any, theta: Any, lane: Any, share: Any) -> Any:
    """Move the averages of a seed, or of four, to their points by a share of the way."""
    raise NotImplementedError


def _shift_one(width: Any, average: Any, theta: Any, lane: Any, share: Any) -> Any:
    mean, point, size = row_of(average, lane), row_of(theta, lane), hidden(theta.shape[1])
    whole = size // WIDTH * WIDTH
    j = 0
    while j < whole:
        _shift(Four(), mean, point, share, j)
        j = hidden(j + WIDTH)
    j = whole
    while j < size:
        _shift(One(), mean, point, share, j)
        j = hidden(j + 1)
    return 0


def _shift_four(width: Any, average: Any, theta: Any, lane: Any, share: Any) -> Any:
    size, (p, q, r, s) = hidden(theta.shape[1]), parts(share)
    (a, b, c, d), (w, x, y, z) = four_rows(average, lane), four_rows(theta, lane)
    whole = size // WIDTH * WIDTH
    j = 0
    while j < whole:
        _shift(Four(), a, w, p, j)
        _shift(Four(), b, x, q, j)
        _shift(Four(), c, y, r, j)
        _shift(Four(), d, z, s, j)
        j = hidden(j + WIDTH)
    j = whole
    while j < size:
        _shift(One(), a, w, p, j)
        _shift(One(), b, x, q, j)
        _shift(One(), c, y, r, j)
        _shift(One(), d, z, s, j)
        j = hidden(j + 1)
    return 0


@loop_part
def _shift(width: Any, mean: Any, point: Any, share: Any, j: Any) -> None:
    old = entry(width, mean, j)
    put(mean, j, old + share * (entry(width, point, j) - old))


def _theory_record(watch: Any, out: Any, terms: Any, theta: Any, work: Any) -> Any:
    for metric in (BEST, BEST_AFTER, LOWEST, HIGHEST, TRIALS):
        out[metric] = watch.numbers[metric]
    out[GAP_AVERAGE] = objective_gap(terms, watch.average, work)
    out[GAP_LAST] = objective_gap(terms, theta, work)
    out[GRAD_LAST] = full_sqnorm(terms, theta, work)
    out[BEST_AFTER] = min(out[BEST_AFTER], out[GRAD_LAST])
    return 0


implement(One, {shift_rows: _shift_one})
implement(Four, {shift_rows: _shift_four})
implement(
    TheoryWatch,
    {
        watch_point: _theory_point,
        watch_step: _theory_step,
        watch_arrival: _theory_arrival,
        watch_together: nothing_together,
        watch_record: _theory_record,
    },
)
has_lanes(TheoryWatch, "average", columns=("numbers",))
