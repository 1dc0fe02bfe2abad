"""What is measured along a run: the quantities of training, or a mean.

Those of the theory are in :mod:`heavystep.simulation.theory_watch`.
"""

from typing import Any, NamedTuple, Self

import numpy as np

from heavystep.arrays import Array
from heavystep.simulation.configuration import EPS, Configuration
from heavystep.simulation.lanes import has_lanes
from heavystep.simulation.terms import RARE, implement, objectives

NEARLY = 1.0 - 4.0 * EPS
"""A line search makes its largest step by a division and a product: it may miss it by rounding."""
TRAINING_METRICS = ("loss", "step", "capped", "limited", "trials")
"""What :class:`TrainingWatch` records: the full loss, and since the last record the mean step, the
share of steps at the largest step and the share held below it by the smooth reset; the trials since
the start."""
LOSS, STEP, CAPPED, LIMITED, ALL_TRIALS = range(5)


def watch_point(watch: Any, width: Any, lane: Any, k: Any, theta: Any, full: Any) -> Any:
    """At theta_k, before the step; ``full`` is ||grad F||^2, or NaN.

    Here and below, of the seed ``lane``, or of the four seeds from there on if that is the
    ``width``; ``theta`` has a row for each seed.
    """
    raise NotImplementedError


def watch_step(
    watch: Any, width: Any, lane: Any, row: Any, search: Any, gamma: Any, seen: Any
) -> Any:
    """The rule has decided; ``gamma`` is its step times the multiplier.

    ``row`` is that of the tables which were made for the steps of one call.
    """
    raise NotImplementedError


def watch_arrival(watch: Any, width: Any, lane: Any, row: Any, theta: Any) -> Any:
    """At theta_{k+1}."""
    raise NotImplementedError


def watch_together(watch: Any, terms: Any, theta: Any, work: Any) -> Any:
    """Before metrics are recorded: measure what is cheaper for all seeds at once."""
    raise NotImplementedError


def watch_record(watch: Any, out: Any, terms: Any, theta: Any, work: Any) -> Any:
    """Write the metrics of one seed, to whom all arrays belong."""
    raise NotImplementedError


class TrainingWatch(NamedTuple):
    """The full loss, and how the steps were chosen."""

    numbers: Array
    """Sums since the last record, in the order of :data:`TRAINING_METRICS`; the trials since the
    start, and the loss at the last record."""
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


def _training_point(watch: Any, width: Any, lane: Any, k: Any, theta: Any, full: Any) -> Any:
    return 0


def _training_step(
    watch: Any, width: Any, lane: Any, row: Any, search: Any, gamma: Any, seen: Any
) -> Any:
    numbers = watch.numbers
    watch.taken[lane, 0] += 1.0
    numbers[lane, STEP] += gamma
    if search.capped and search.step < NEARLY * watch.most[row]:
        numbers[lane, LIMITED] += 1.0
    elif search.capped:
        numbers[lane, CAPPED] += 1.0
    numbers[lane, ALL_TRIALS] += search.trials
    return 0


def _training_arrival(watch: Any, width: Any, lane: Any, row: Any, theta: Any) -> Any:
    return 0


def _training_together(watch: Any, terms: Any, theta: Any, work: Any) -> Any:
    return objectives(terms, theta, work, watch.numbers[:, LOSS])


def nothing_together(watch: Any, terms: Any, theta: Any, work: Any) -> Any:
    """For what is measured of each seed by itself."""
    return 0


def _training_record(watch: Any, out: Any, terms: Any, theta: Any, work: Any) -> Any:
    out[LOSS] = watch.numbers[LOSS]
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


def _mean_step(
    watch: Any, width: Any, lane: Any, row: Any, search: Any, gamma: Any, seen: Any
) -> Any:
    return 0


def _mean_arrival(watch: Any, width: Any, lane: Any, row: Any, theta: Any) -> Any:
    watch.steps[lane, 0] += 1
    if watch.steps[lane, 0] % watch.every == 0:
        watch.last_weight[lane, 0] += 1
        watch.weight[lane, 0] += watch.last_weight[lane, 0]
        for j in range(theta.shape[1]):
            watch.total[lane, j] += watch.last_weight[lane, 0] * theta[lane, j]
    return 0


def _mean_record(watch: Any, out: Any, terms: Any, theta: Any, work: Any) -> Any:
    return 0


RARE.update((watch_together, watch_record))
implement(
    TrainingWatch,
    {
        watch_point: _training_point,
        watch_step: _training_step,
        watch_arrival: _training_arrival,
        watch_together: _training_together,
        watch_record: _training_record,
    },
)
implement(
    MeanWatch,
    {
        watch_point: _training_point,
        watch_step: _mean_step,
        watch_arrival: _mean_arrival,
        watch_together: nothing_together,
        watch_record: _mean_record,
    },
)
has_lanes(TrainingWatch, "numbers", "taken")
has_lanes(MeanWatch, "total", "steps", "last_weight", "weight")
