"""What is measured along a run: the theory's quantities, those of training, or a mean."""

import math
from typing import Any, NamedTuple, Self

import numpy as np

from heavystep.arrays import Array
from heavystep.problems import FiniteSum
from heavystep.simulation.configuration import EPS, Configuration
from heavystep.simulation.fours import WIDTH, four_at, put_four
from heavystep.simulation.kernel_cache import inner_kernel
from heavystep.simulation.lanes import has_lanes
from heavystep.simulation.terms import RARE, full_sqnorm, implement, objective, objective_gap

TINY = float(np.finfo(np.float64).tiny)
ROUNDINGS = 64.0
BLUR = 1e-6
"""A step bound is looked at where rounding of the loss moves the step by less than this part."""
NEARLY = 1.0 - 4.0 * EPS
"""A line search makes its largest step by a division and a product: it may miss it by rounding."""
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
TRAINING_METRICS = ("loss", "step", "capped", "limited", "trials")
"""What :class:`TrainingWatch` records: the full loss, and since the last record the mean step, the
share of steps at the largest step and the share held below it by the smooth reset; the trials since
the start."""
LOSS, STEP, CAPPED, LIMITED, ALL_TRIALS = range(5)


def watch_point(watch: Any, k: Any, theta: Any, full: Any) -> Any:
    """At theta_k, before the step; ``full`` is ||grad F||^2, or NaN."""
    raise NotImplementedError


def watch_step(watch: Any, row: Any, search: Any, gamma: Any, seen: Any) -> Any:
    """The rule has decided; ``gamma`` is its step times the multiplier.

    ``row`` is that of the tables which were made for the steps of one call.
    """
    raise NotImplementedError


def watch_arrival(watch: Any, row: Any, theta: Any) -> Any:
    """At theta_{k+1}."""
    raise NotImplementedError


def watch_record(watch: Any, out: Any, terms: Any, theta: Any, work: Any) -> Any:
    """Write the metrics."""
    raise NotImplementedError


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


def _theory_point(watch: Any, k: Any, theta: Any, full: Any) -> Any:
    _note_point(watch.numbers, k, full)
    _include(watch.average, watch.numbers, theta, 1.0, not watch.weighted)
    return 0


def _theory_step(watch: Any, row: Any, search: Any, gamma: Any, seen: Any) -> Any:
    _note_step(watch.numbers, watch.ahead, watch.point_error, watch.L, row, search, seen)
    return 0


def _theory_arrival(watch: Any, row: Any, theta: Any) -> Any:
    _include(watch.average, watch.numbers, theta, watch.ahead[row, WEIGHT], watch.weighted)
    return 0


@inner_kernel
def _note_point(numbers: Any, k: Any, full: Any) -> None:
    """Running minima."""
    if full < numbers[BEST]:
        numbers[BEST] = full
    if full < numbers[BEST_AFTER] and k > 0:
        numbers[BEST_AFTER] = full


@inner_kernel
def _note_step(
    numbers: Any, ahead: Any, point_error: Any, L: Any, row: Any, search: Any, seen: Any
) -> None:
    """Smallest step in units of gamma_min and largest in units of gamma_max (Lemmas 2, 5)."""
    least, most = ahead[row, LEAST], ahead[row, MOST]
    numbers[TRIALS] += search.trials
    if search.step > numbers[HIGHEST] * most:
        numbers[HIGHEST] = search.step / most
    if search.step < numbers[LOWEST] * least:
        error = ROUNDINGS * EPS * (abs(seen.loss) + abs(seen.lower_bound)) + TINY
        error += point_error * (math.sqrt(seen.grad_sqnorm) + L * point_error)
        blur = BLUR * min(seen.loss - seen.lower_bound, least * seen.grad_sqnorm)
        if seen.grad_sqnorm > 0.0 and error < blur:
            numbers[LOWEST] = search.step / least


@inner_kernel
def _include(average: Any, numbers: Any, point: Any, weight: Any, wanted: Any) -> None:
    """One more point in the running average, by its difference from it, if it is ``wanted``."""
    numbers[SUM_OF_WEIGHTS] += weight if wanted else 0.0
    share, size = weight / numbers[SUM_OF_WEIGHTS], point.shape[0] if wanted else 0
    whole = size // WIDTH * WIDTH
    for j in range(0, whole, WIDTH):
        mean = four_at(average, j)
        put_four(average, j, mean + share * (four_at(point, j) - mean))
    for j in range(whole, size):
        average[j] += share * (point[j] - average[j])


def _theory_record(watch: Any, out: Any, terms: Any, theta: Any, work: Any) -> Any:
    for metric in (BEST, BEST_AFTER, LOWEST, HIGHEST, TRIALS):
        out[metric] = watch.numbers[metric]
    out[GAP_AVERAGE] = objective_gap(terms, watch.average, work)
    out[GAP_LAST] = objective_gap(terms, theta, work)
    out[GRAD_LAST] = full_sqnorm(terms, theta, work)
    out[BEST_AFTER] = min(out[BEST_AFTER], out[GRAD_LAST])
    return 0


class TrainingWatch(NamedTuple):
    """The full loss, and how the steps were chosen."""

    numbers: Array
    """Sums since the last record, in the order of :data:`TRAINING_METRICS`; the trials since the
    start."""
    taken: Array
    """(1,) steps since the last record."""
    most: Array
    """gamma_max,k for the steps of one call, or one for all of them; NaN: the rule has none."""

    @classmethod
    def empty(cls) -> "TrainingWatch":
        """Nothing measured yet."""
        return cls(np.zeros(len(TRAINING_METRICS)), np.zeros(1), np.empty(0))

    def prepare(self, configuration: Configuration, first: int, count: int) -> Self:
        """Take in the largest of the next ``count`` steps."""
        return self._replace(most=configuration.largest_steps(first, count))


def _training_point(watch: Any, k: Any, theta: Any, full: Any) -> Any:
    return 0


def _training_step(watch: Any, row: Any, search: Any, gamma: Any, seen: Any) -> Any:
    numbers = watch.numbers
    watch.taken[0] += 1.0
    numbers[STEP] += gamma
    if search.capped and search.step < NEARLY * watch.most[row]:
        numbers[LIMITED] += 1.0
    elif search.capped:
        numbers[CAPPED] += 1.0
    numbers[ALL_TRIALS] += search.trials
    return 0


def _training_arrival(watch: Any, row: Any, theta: Any) -> Any:
    return 0


def _training_record(watch: Any, out: Any, terms: Any, theta: Any, work: Any) -> Any:
    out[LOSS] = objective(terms, theta, work)
    for column in (STEP, CAPPED, LIMITED):
        out[column] = watch.numbers[column] / watch.taken[0]
        watch.numbers[column] = 0.0
    out[ALL_TRIALS] = watch.numbers[ALL_TRIALS]
    watch.taken[0] = 0.0
    return 0


class MeanWatch(NamedTuple):
    """The mean of some iterates of a run, in which later ones count more."""

    total: Array
    """Sum of the iterates times their weights 1, 2, 3, ..."""
    steps: Array
    """(1,) steps taken."""
    last_weight: Array
    """(1,) weight of the last iterate that entered, which is the number of those."""
    weight: Array
    """(1,) sum of the weights."""
    every: int
    """Neighbours hardly differ: one iterate in ``every`` enters."""

    @classmethod
    def of(cls, dim: int, every: int) -> "MeanWatch":
        """Nothing measured yet."""
        return cls(np.zeros(dim), np.zeros(1), np.zeros(1), np.zeros(1), every)

    def prepare(self, configuration: Configuration, first: int, count: int) -> Self:
        """Needs nothing."""
        return self

    def mean(self) -> Array:
        """The mean of the iterates that entered."""
        mean: Array = self.total / self.weight
        return mean


def _mean_step(watch: Any, row: Any, search: Any, gamma: Any, seen: Any) -> Any:
    return 0


def _mean_arrival(watch: Any, row: Any, theta: Any) -> Any:
    watch.steps[0] += 1
    if watch.steps[0] % watch.every == 0:
        watch.last_weight[0] += 1
        watch.weight[0] += watch.last_weight[0]
        for j in range(theta.shape[0]):
            watch.total[j] += watch.last_weight[0] * theta[j]
    return 0


def _mean_record(watch: Any, out: Any, terms: Any, theta: Any, work: Any) -> Any:
    return 0


RARE.add(watch_record)
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
has_lanes(TheoryWatch, "average", "numbers")
has_lanes(TrainingWatch, "numbers", "taken")
has_lanes(MeanWatch, "total", "steps", "last_weight", "weight")
