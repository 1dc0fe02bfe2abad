"""What came of the runs on one task, in numbers."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from heavystep.arrays import Array
from heavystep.bench.sensitivity.loop import METRICS
from heavystep.bench.sensitivity.others import REFERENCE
from heavystep.bench.sensitivity.plan import Entry, Plan, SeedRuns
from heavystep.bench.tasks import LOWER
from heavystep.compare.score import counted, least, over_seeds, sensitivity
from heavystep.sweeps.runner import Results


@dataclass(frozen=True)
class Numbers:
    """Some runs from each seed: arrays (..., seeds), NaN where a run stopped."""

    loss: Array
    metric: Array
    average_loss: Array
    average_metric: Array
    trials: Array
    warnings: Array
    seconds: Array


@dataclass(frozen=True)
class ContenderOutcome:
    """A contender over its grid, and as it is."""

    entry: Entry
    grid: Numbers
    """(values, seeds) each."""
    default: Numbers
    """(seeds,) each."""

    @property
    def name(self) -> str:
        """Of the contender."""
        return self.entry.contender.name

    @property
    def ours(self) -> bool:
        """Whether it is a method of the registry."""
        return self.entry.contender.ours


def _numbers(runs: SeedRuns, results: Results) -> dict[str, Array]:
    found = [results[run.key()] for run in runs]
    last = {name: np.array([each.metrics[name][0, -1] for each in found]) for name in METRICS}
    return {**last, "seconds": np.array([sum(each.seconds) for each in found])}


def contender_outcome(entry: Entry, results: Results) -> ContenderOutcome:
    """What came of a contender."""
    grid = [_numbers(runs, results) for runs in entry.grid]
    stacked = {name: np.stack([each[name] for each in grid]) for name in grid[0]}
    return ContenderOutcome(entry, Numbers(**stacked), Numbers(**_numbers(entry.default, results)))


@dataclass(frozen=True)
class Outcome:
    """All contenders on one task."""

    plan: Plan
    contenders: tuple[ContenderOutcome, ...]
    start: Array
    """(seeds,) l_0, the losses before the first step."""
    start_metric: Array
    """(seeds,) the metric there."""

    @classmethod
    def of(cls, plan: Plan, results: Results) -> "Outcome":
        """From the results of all runs of the plan."""
        begun = [results[run.key()].metrics for run in plan.entries[0].default]
        return cls(
            plan,
            tuple(contender_outcome(entry, results) for entry in plan.entries),
            np.array([metrics["loss"][0, 0] for metrics in begun]),
            np.array([metrics["metric"][0, 0] for metrics in begun]),
        )

    def losses(self, numbers: Numbers) -> Array:
        """(..., seeds) min{l_0, l}."""
        return counted(numbers.loss, self.start)

    def metrics(self, numbers: Numbers) -> Array:
        """(..., seeds) the metric, but never worse than at the start."""
        return self.not_worse(numbers.metric)

    def not_worse(self, values: Array) -> Array:
        """(..., seeds) metrics, but never worse than at the start."""
        sign = -self.plan.task.metric.better
        found: Array = sign * counted(sign * values, sign * self.start_metric)
        return found

    @cached_property
    def means(self) -> dict[str, Array]:
        """(values,) means over seeds of min{l_0, l} over the grid, by contender."""
        return over_seeds({each.name: each.grid.loss for each in self.contenders}, self.start)

    @property
    def least(self) -> float:
        """l*, the least of them."""
        return least(self.means)

    @cached_property
    def scores(self) -> dict[str, float]:
        """The sensitivity of each contender."""
        return sensitivity(self.means)

    @property
    def worst(self) -> float:
        """The worst possible score: l_0 - l*."""
        return float(self.start.mean()) - self.least

    def ratio(self, name: str) -> float:
        """A score as a part of that of :data:`REFERENCE`; NaN without it."""
        reference = self.scores.get(REFERENCE, np.nan)
        return self.scores[name] / reference if reference > 0.0 else np.nan

    def failed(self, each: ContenderOutcome) -> int:
        """How many runs over the grid stopped, or ended above l_0."""
        with np.errstate(invalid="ignore"):
            return int(np.sum(~(each.grid.loss <= self.start)))


@dataclass(frozen=True)
class Best:
    """The best that a contender reaches."""

    contender: str
    main: str
    value: float | None
    """Of its main constant; None: the untouched default."""
    result: float

    def __str__(self) -> str:
        where = "default" if self.value is None else f"{self.main} = {self.value:.3g}"
        return f"{self.result:.4g} ({self.contender}, {where})"


def best_of(outcome: Outcome, each: ContenderOutcome, what: str) -> Best:
    """The best mean over seeds, of a contender's grid and default.

    Args:
        outcome: of the task.
        each: the contender.
        what: ``"loss"`` or ``"metric"``.
    """
    measure = outcome.losses if what == "loss" else outcome.metrics
    sign = LOWER if what == "loss" else outcome.plan.task.metric.better
    means = np.append(measure(each.grid).mean(axis=-1), measure(each.default).mean())
    place = int(np.argmax(sign * means))
    value = (*each.entry.values, None)[place]
    return Best(each.name, each.entry.contender.main, value, float(means[place]))
