"""What came of a comparison, in numbers."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from heavystep.arrays import Array
from heavystep.compare.plan import Entry, Plan
from heavystep.compare.problems import Compared
from heavystep.compare.score import counted, least, over_seeds, sensitivity
from heavystep.records import Trajectories
from heavystep.sweeps.runner import Results

DEEPEST = 1e-16
"""Losses below this part of l_0 are rounding: nobody is better by being lower still."""


@dataclass(frozen=True)
class MethodOutcome:
    """A method with each constant of its grid."""

    entry: Entry
    k: Array
    """(G,) numbers of steps, from 0 on."""
    losses: Array
    """(constants, seeds, G) after so many steps; NaN from where a run stopped."""
    trials: Array
    """(constants, seeds) losses that a line search evaluated."""
    steps: Array
    """(constants, seeds) steps up to the last record of the run."""
    seconds: Array
    """(constants, seeds) wall times."""

    @classmethod
    def of(cls, problem: Compared, entry: Entry, results: Results) -> "MethodOutcome":
        """From the results of its runs."""
        found = [results[run.key()] for run in entry.runs]
        curves = [problem.losses(result) for result in found]
        last = [_last_records(result) for result in found]
        return cls(
            entry,
            curves[0][0],
            np.stack([losses for _, losses in curves]),
            np.stack([trials for trials, _ in last]),
            np.stack([steps for _, steps in last]),
            np.stack([np.array(result.seconds) for result in found]),
        )

    @property
    def final(self) -> Array:
        """(constants, seeds) final losses."""
        final: Array = self.losses[:, :, -1]
        return final

    @property
    def default(self) -> Array:
        """(seeds, G) losses with the default."""
        losses: Array = self.losses[self.entry.centre]
        return losses


def _last_records(result: Trajectories) -> tuple[Array, Array]:
    """(seeds,) trials and steps at the last record before a run stopped."""
    trials = result.metrics["trials"]
    known = np.isfinite(trials).sum(axis=1)
    place = np.maximum(known - 1, 0)
    some = known > 0
    rows = np.arange(len(trials))
    return np.where(some, trials[rows, place], 0.0), np.where(some, result.k[place], 0)


@dataclass(frozen=True)
class Outcome:
    """All methods on one problem."""

    plan: Plan
    methods: tuple[MethodOutcome, ...]

    @classmethod
    def of(cls, plan: Plan, results: Results) -> "Outcome":
        """From the results of all runs of the plan."""
        return cls(
            plan,
            tuple(MethodOutcome.of(plan.problem, entry, results) for entry in plan.entries),
        )

    @property
    def start(self) -> Array:
        """(seeds,) l_0, the losses at the start."""
        start: Array = self.methods[0].losses[0, :, 0]
        return start

    @cached_property
    def means(self) -> dict[str, Array]:
        """(constants,) means over seeds of min{l_0, l}, by method."""
        return over_seeds({each.entry.method: each.final for each in self.methods}, self.start)

    @property
    def floor(self) -> float:
        """The loss below which differences mean nothing."""
        return DEEPEST * float(self.start.mean())

    @property
    def least(self) -> float:
        """l*, the least of them."""
        return least(self.means)

    @property
    def scores(self) -> dict[str, float]:
        """The sensitivity of each method."""
        return sensitivity(self.means)

    def counted(self, method: MethodOutcome) -> Array:
        """(constants, seeds) min{l_0, l}."""
        return counted(method.final, self.start)
