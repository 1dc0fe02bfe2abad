"""What is measured along a run: the quantities of the paper's theorems, or those of training."""

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from heavystep.arrays import Array
from heavystep.lab.simulation.compiling import part
from heavystep.lab.simulation.configuration import EPS, Configuration
from heavystep.lab.simulation.kernels import Function, Kernels
from heavystep.problems import FiniteSum

NEARLY = 1.0 - 4.0 * EPS
"""A line search makes its largest step by a division and a product: it may miss it by rounding."""
TINY = float(np.finfo(np.float64).tiny)
ROUNDINGS = 64.0
BLUR = 1e-6
"""A step bound is looked at where rounding of the loss moves the step by less than this part."""
THEORY_METRICS = (
    "gap_average", "gap_last", "best", "best_after", "grad_last", "lowest", "highest", "trials",
)  # fmt: skip
"""What :class:`TheoryWatch` records at each point of the grid, after k steps."""
GAP_AVERAGE, GAP_LAST, BEST, BEST_AFTER, GRAD_LAST, LOWEST, HIGHEST, TRIALS, WEIGHTS = range(9)
LEAST, MOST, WEIGHT = range(3)
TRAINING_METRICS = ("loss", "step", "capped", "limited", "trials")
"""What :class:`TrainingWatch` records: the full loss, and since the last record the mean step, the
share of steps at the largest step and the share held below it by the smooth reset; the trials since
the start."""
LOSS, STEP, CAPPED, LIMITED, ALL_TRIALS, TAKEN = range(6)


class Watching(NamedTuple):
    """The compiled functions of a watch."""

    point: Function
    """(watch, k, theta, full): at theta_k, before the step; ``full`` is ||grad F||^2, or NaN."""
    step: Function
    """(watch, row, search, gamma, seen): the rule has decided; ``gamma`` is its step times the
    multiplier, ``row`` that of the tables which were made for the steps of one call."""
    arrival: Function
    """(watch, row, theta): at theta_{k+1}."""
    record: Function
    """(watch, out, data, theta, work): write the metrics."""


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
        if not configuration.theory:
            numbers[[LOWEST, HIGHEST]] = math.nan
        size = np.linalg.norm(problem.theta0) + np.linalg.norm(problem.theta_star)
        error, weighted = ROUNDINGS * EPS * float(size), configuration.average == "weighted"
        return cls(np.zeros(problem.dim), numbers, error, L, np.empty((0, 3)), weighted)

    def prepare(self, configuration: Configuration, first: int, count: int) -> "TheoryWatch":
        """Take in what the theory says of the next ``count`` steps."""
        ahead = np.ones((count, 3))
        ahead[:, LEAST], ahead[:, MOST] = configuration.step_bounds(self.L, first, count)
        if self.weighted:
            ahead[:, WEIGHT] = configuration.weights(self.L, first, count)
        return self._replace(ahead=ahead)


@part
def _include(watch: Any, theta: Any, weight: Any) -> None:
    """One more point in the running average, by its difference from it."""
    watch.numbers[WEIGHTS] += weight
    share = weight / watch.numbers[WEIGHTS]
    for j in range(theta.shape[0]):
        watch.average[j] += share * (theta[j] - watch.average[j])


@part
def _theory_point(watch: Any, k: Any, theta: Any, full: Any) -> None:
    """Running minima."""
    numbers = watch.numbers
    if full < numbers[BEST]:
        numbers[BEST] = full
    if k > 0 and full < numbers[BEST_AFTER]:
        numbers[BEST_AFTER] = full
    if not watch.weighted:
        _include(watch, theta, 1.0)


@part
def _theory_step(watch: Any, row: Any, search: Any, gamma: Any, seen: Any) -> None:
    """Smallest step in units of gamma_min and largest in units of gamma_max (Lemmas 2, 5)."""
    numbers, step = watch.numbers, search.step
    least, most = watch.ahead[row, LEAST], watch.ahead[row, MOST]
    numbers[TRIALS] += search.trials
    if step > numbers[HIGHEST] * most:
        numbers[HIGHEST] = step / most
    if step < numbers[LOWEST] * least and seen.grad_sqnorm > 0.0:
        error = ROUNDINGS * EPS * (abs(seen.loss) + abs(seen.lower_bound)) + TINY
        moved = math.sqrt(seen.grad_sqnorm) + watch.L * watch.point_error
        error += watch.point_error * moved
        if error < BLUR * min(seen.loss - seen.lower_bound, least * seen.grad_sqnorm):
            numbers[LOWEST] = step / least


@part
def _theory_arrival(watch: Any, row: Any, theta: Any) -> None:
    if watch.weighted:
        _include(watch, theta, watch.ahead[row, WEIGHT])


class TrainingWatch(NamedTuple):
    """The full loss, and how the steps were chosen."""

    numbers: Array
    """Sums since the last record, in the order of :data:`TRAINING_METRICS`; the trials since the
    start; and the number of steps since the last record."""
    most: Array
    """gamma_max,k for the steps of one call, or one for all of them; NaN: the rule has none."""

    def prepare(self, configuration: Configuration, first: int, count: int) -> "TrainingWatch":
        """Take in the largest of the next ``count`` steps."""
        return self._replace(most=configuration.largest_steps(first, count))


@part
def _training_point(watch: Any, k: Any, theta: Any, full: Any) -> None:
    pass


@part
def _training_step(watch: Any, row: Any, search: Any, gamma: Any, seen: Any) -> None:
    numbers = watch.numbers
    numbers[TAKEN] += 1.0
    numbers[STEP] += gamma
    if search.capped and search.step < NEARLY * watch.most[row]:
        numbers[LIMITED] += 1.0
    elif search.capped:
        numbers[CAPPED] += 1.0
    numbers[ALL_TRIALS] += search.trials


@part
def _training_arrival(watch: Any, row: Any, theta: Any) -> None:
    pass


@cache
def watching(kind: type, kernels: Kernels) -> Watching:
    """The functions of a watch on problems of one kind."""
    measure, full_sqnorm = kernels.measure, kernels.full_sqnorm

    @part
    def record_theory(watch: Any, out: Any, data: Any, theta: Any, work: Any) -> None:
        numbers = watch.numbers
        for metric in (BEST, BEST_AFTER, LOWEST, HIGHEST, TRIALS):
            out[metric] = numbers[metric]
        out[GAP_AVERAGE] = measure(data, watch.average, work)
        out[GAP_LAST] = measure(data, theta, work)
        out[GRAD_LAST] = full_sqnorm(data, theta, work)
        out[BEST_AFTER] = min(out[BEST_AFTER], out[GRAD_LAST])

    @part
    def record_training(watch: Any, out: Any, data: Any, theta: Any, work: Any) -> None:
        numbers = watch.numbers
        out[LOSS] = measure(data, theta, work)
        for metric in (STEP, CAPPED, LIMITED):
            out[metric] = numbers[metric] / numbers[TAKEN]
            numbers[metric] = 0.0
        out[ALL_TRIALS] = numbers[ALL_TRIALS]
        numbers[TAKEN] = 0.0

    if kind is TheoryWatch:
        return Watching(_theory_point, _theory_step, _theory_arrival, record_theory)
    return Watching(_training_point, _training_step, _training_arrival, record_training)
