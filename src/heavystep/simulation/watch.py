"""What is measured along a run: the theory's quantities, or those of training."""

import math
from typing import Any, NamedTuple

import numpy as np

from heavystep.arrays import Array
from heavystep.simulation.checks import EPS
from heavystep.simulation.kernel_cache import kernel
from heavystep.simulation.terms import full_sqnorm, implement, objective, objective_gap

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
TRAINING_METRICS = ("loss", "step", "capped", "limited", "trials")
"""What :class:`TrainingWatch` records: the full loss, and since the last record the mean step
before its multiplier, the share of steps at gamma_max and the share held below it by the smooth
reset; the trials since the start."""


def watch_point(watch: Any, k: Any, theta: Any, full: Any) -> Any:
    """At theta_k, before the step; ``full`` is ||grad F||^2, or NaN."""
    raise NotImplementedError


def watch_step(watch: Any, step: Any, base: Any, caps: Any, trials: Any, seen: Any) -> Any:
    """The step chosen, before its multiplier; ``caps`` are gamma_max and the smooth reset's."""
    raise NotImplementedError


def watch_arrival(watch: Any, step: Any, theta: Any) -> Any:
    """At theta_{k+1}."""
    raise NotImplementedError


def watch_record(watch: Any, out: Any, terms: Any, theta: Any) -> Any:
    """Write the metrics."""
    raise NotImplementedError


class TheoryWatch(NamedTuple):
    """Averages, running minima and step bounds of the paper's theorems."""

    average: Array
    numbers: Array
    """Sum of weights, best, best_after, lowest, highest, trials."""
    point_error: float
    """Rounding of a point, for the step bounds."""
    L: float
    least: Array
    """gamma_min,k of Lemmas 2 and 5, for the steps of one call."""
    weights: Array
    """Of theta_{k+1} in the average; empty: uniform average of theta_0 .. theta_k."""


@kernel
def _include(average: Any, numbers: Any, point: Any, weight: Any) -> None:
    """One more point in the running average, by its difference from it."""
    numbers[0] += weight
    share = weight / numbers[0]
    for j in range(point.shape[0]):
        average[j] += share * (point[j] - average[j])


def _theory_point(watch: Any, k: Any, theta: Any, full: Any) -> Any:
    numbers = watch.numbers
    if full < numbers[1]:
        numbers[1] = full
    if full < numbers[2] and k > 0:
        numbers[2] = full
    if watch.weights.shape[0] == 0:
        _include(watch.average, numbers, theta, 1.0)
    return 0


def _theory_step(watch: Any, step: Any, base: Any, caps: Any, trials: Any, seen: Any) -> Any:
    """Smallest step in units of gamma_min and largest in units of gamma_max (Lemmas 2, 5)."""
    numbers, least = watch.numbers, watch.least[step]
    numbers[5] += trials
    if base > numbers[4] * caps[0]:
        numbers[4] = base / caps[0]
    if base < numbers[3] * least:
        loss, low, sqnorm = seen
        error = ROUNDINGS * EPS * (abs(loss) + abs(low)) + TINY
        error += watch.point_error * (math.sqrt(sqnorm) + watch.L * watch.point_error)
        if sqnorm > 0.0 and error < BLUR * min(loss - low, least * sqnorm):
            numbers[3] = base / least
    return 0


def _theory_arrival(watch: Any, step: Any, theta: Any) -> Any:
    if watch.weights.shape[0] > 0:
        _include(watch.average, watch.numbers, theta, watch.weights[step])
    return 0


def _theory_record(watch: Any, out: Any, terms: Any, theta: Any) -> Any:
    numbers = watch.numbers
    last = full_sqnorm(terms, theta)
    out[0] = objective_gap(terms, watch.average)
    out[1] = objective_gap(terms, theta)
    out[2] = numbers[1]
    out[3] = min(numbers[2], last)
    out[4] = last
    out[5], out[6], out[7] = numbers[3], numbers[4], numbers[5]
    return 0


class TrainingWatch(NamedTuple):
    """The full loss, and how the steps were chosen."""

    numbers: Array
    """Since the last record: steps, their sum, those at gamma_max, those held by the reset;
    trials since the start."""


def _training_point(watch: Any, k: Any, theta: Any, full: Any) -> Any:
    return 0


def _training_step(watch: Any, step: Any, base: Any, caps: Any, trials: Any, seen: Any) -> Any:
    numbers = watch.numbers
    numbers[0] += 1.0
    numbers[1] += base
    if base >= caps[0]:
        numbers[2] += 1.0
    elif base >= caps[1]:
        numbers[3] += 1.0
    numbers[4] += trials
    return 0


def _training_arrival(watch: Any, step: Any, theta: Any) -> Any:
    return 0


def _training_record(watch: Any, out: Any, terms: Any, theta: Any) -> Any:
    numbers = watch.numbers
    out[0] = objective(terms, theta)
    for column in (1, 2, 3):
        out[column] = numbers[column] / numbers[0]
    out[4] = numbers[4]
    numbers[:4] = 0.0
    return 0


class MeanWatch(NamedTuple):
    """The mean of some iterates of a run, later ones counting more."""

    mean: Array
    """Sum of weighted iterates, until it is divided by the sum of the weights."""
    numbers: Array
    """Steps taken, iterates that entered, the sum of their weights 1, 2, 3, ..."""
    every: int
    """Neighbours hardly differ: one iterate in so many enters."""


def _mean_step(watch: Any, step: Any, base: Any, caps: Any, trials: Any, seen: Any) -> Any:
    return 0


def _mean_arrival(watch: Any, step: Any, theta: Any) -> Any:
    numbers = watch.numbers
    numbers[0] += 1
    if numbers[0] % watch.every == 0:
        numbers[1] += 1
        numbers[2] += numbers[1]
        for j in range(theta.shape[0]):
            watch.mean[j] += numbers[1] * theta[j]
    return 0


def _mean_record(watch: Any, out: Any, terms: Any, theta: Any) -> Any:
    return 0


implement(
    TheoryWatch,
    {
        watch_point: _theory_point,
        watch_step: _theory_step,
        watch_arrival: _theory_arrival,
        watch_record: _theory_record,
    },
)
implement(
    TrainingWatch,
    {
        watch_point: _training_point,
        watch_step: _training_step,
        watch_arrival: _training_arrival,
        watch_record: _training_record,
    },
)
implement(
    MeanWatch,
    {
        watch_point: _training_point,
        watch_step: _mean_step,
        watch_arrival: _mean_arrival,
        watch_record: _mean_record,
    },
)
