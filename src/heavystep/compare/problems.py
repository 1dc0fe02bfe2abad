"""What methods are compared on: a problem by its name, or any LIBSVM file."""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from heavystep import validation
from heavystep.arrays import Array
from heavystep.compare.training import TASKS, Task, TrainedRuns
from heavystep.data import binary_labels, load
from heavystep.data.catalogue import CATALOGUE
from heavystep.files import expanded
from heavystep.methods import method_of
from heavystep.problems import FiniteSum, SparseLogistic, VarianceReduced
from heavystep.records import Trajectories
from heavystep.rules import NEW_BATCHES
from heavystep.simulation.configuration import configure
from heavystep.sweeps.engines import Job
from heavystep.sweeps.public import SECTION_5
from heavystep.sweeps.runs import Runs
from heavystep.sweeps.seeds import timed_seed
from heavystep.sweeps.specification import GivenProblem, ProblemSpec, RunSpec

POINTS = 50
"""How often the loss is recorded in a simulated run."""
LIBSVM_BATCH, LIBSVM_EPOCHS, LIBSVM_STEPS = 128, 20, (2_000, 20_000)
"""Rows in a batch, and the length of a run: so many epochs, but not fewer or more steps."""
TRAINED_BATCH = 128


@dataclass(frozen=True)
class Size:
    """How large the comparison on a problem is."""

    seeds: int
    iterations: int
    batch_size: int


class Compared(ABC):
    """A problem, as far as a comparison looks at it."""

    name: str
    """What it is called in tables; its file names come from it."""

    @property
    @abstractmethod
    def loss_name(self) -> str:
        """What the losses are."""

    @property
    @abstractmethod
    def title(self) -> str:
        """A line for pictures and pages."""

    @property
    @abstractmethod
    def terms(self) -> int:
        """How many terms the loss has: an epoch looks at so many."""

    @abstractmethod
    def usual(self, *, quick: bool) -> Size:
        """The size of a comparison where the user has not chosen one."""

    @abstractmethod
    def runs(self, method: str, options: dict[str, Any], size: Size, label: str) -> Runs:
        """The runs of a method with these options.

        Raises:
            TypeError: the method cannot run here.
            ValueError: the same.
        """

    @abstractmethod
    def losses(self, result: Trajectories) -> tuple[Array, Array]:
        """Numbers of steps (G,) from 0 on, and the losses after them (seeds, G)."""

    def batches(self, batch_size: int) -> int:
        """How many batches make an epoch."""
        return ceil(self.terms / batch_size)

    @property
    def slug(self) -> str:
        """The name as part of file names.

        >>> SimulatedProblem("noisy cosine", SECTION_5["noisy cosine"]).slug
        'noisy_cosine'
        """
        return re.sub(r"[^\w.-]+", "_", self.name)


@dataclass(frozen=True)
class TimedRunSpec(RunSpec):
    """Simulated runs that are timed, and may stop."""

    @property
    def together(self) -> int:
        """One seed has the core to itself while it is timed."""
        return 1

    def job(self, seeds: tuple[int, ...]) -> Job:
        """The run of one seed."""
        (seed,) = seeds
        arguments = (self.method, seed, self.iterations, self.grid(), self.batch_size)
        return Job(self.label, timed_seed, arguments, self.iterations, self.problem)


@dataclass(frozen=True)
class SimulatedProblem(Compared):
    """A problem with compiled kernels."""

    name: str
    spec: ProblemSpec | GivenProblem

    @cached_property
    def _problem(self) -> FiniteSum | SparseLogistic:
        built = self.spec.build()
        assert not isinstance(built, VarianceReduced)  # for which there is no name
        return built

    @property
    def _from_rows(self) -> bool:
        return isinstance(self._problem, SparseLogistic)

    @property
    def loss_name(self) -> str:
        """The training loss, or F - F* where the minimum is known."""
        return "training loss" if self._from_rows else "F - F*"

    @property
    def title(self) -> str:
        """Name and size."""
        kind = f"logistic regression on {self.name}" if self._from_rows else self.name
        return f"{kind}, {self._problem.n:,} x {self._problem.dim:,}"

    @property
    def terms(self) -> int:
        """Rows, or terms of the sum."""
        return self._problem.n

    def usual(self, *, quick: bool) -> Size:
        """Batches of 128 rows and about 20 epochs; single terms of the paper's problems."""
        if isinstance(self._problem, FiniteSum):
            noisy = self._problem.sigma2 > 0.0
            return Size(2, 1_000, 1) if quick else Size(5, 10_000 if noisy else 2_000, 1)
        if quick:
            return Size(2, 500, LIBSVM_BATCH)
        steps = LIBSVM_EPOCHS * self.batches(LIBSVM_BATCH)
        return Size(5, int(np.clip(steps, *LIBSVM_STEPS)), LIBSVM_BATCH)

    def runs(self, method: str, options: dict[str, Any], size: Size, label: str) -> Runs:
        """See :meth:`Compared.runs`."""
        every = max(1, size.iterations // POINTS)
        return TimedRunSpec(
            self.spec, configure(method, **options), size.seeds, size.iterations, size.batch_size,
            every, label=label,
        )  # fmt: skip

    def losses(self, result: Trajectories) -> tuple[Array, Array]:
        """See :meth:`Compared.losses`."""
        problem = self._problem
        if isinstance(problem, SparseLogistic):
            first, later = problem.objective(problem.theta0), result.metrics["loss"]
        else:
            first, later = problem.gap(problem.theta0), result.metrics["gap_last"]
        start = np.full((len(result.seeds), 1), float(first))
        return np.append(0, result.k), np.hstack([start, later])


@dataclass(frozen=True)
class TrainedProblem(Compared):
    """A small network."""

    name: str
    task: Task

    @property
    def loss_name(self) -> str:
        """The mean cross-entropy of all examples."""
        return "training loss"

    @property
    def title(self) -> str:
        """That of the task."""
        return self.task.title

    @cached_property
    def terms(self) -> int:
        """Examples."""
        return len(self.task.build().targets)

    def batches(self, batch_size: int) -> int:
        """Whole batches only: examples are taken in turn."""
        if batch_size > self.terms:
            raise ValueError(
                f"batch_size must be in 1..{self.terms}, the examples of {self.name}, "
                f"got {batch_size}"
            )
        return self.terms // batch_size

    def usual(self, *, quick: bool) -> Size:
        """Batches of 128 and ten epochs: a network costs more than a kernel."""
        epochs, seeds = (2, 2) if quick else (10, 3)
        return Size(seeds, epochs * self.batches(TRAINED_BATCH), TRAINED_BATCH)

    def runs(self, method: str, options: dict[str, Any], size: Size, label: str) -> Runs:
        """See :meth:`Compared.runs`."""
        if method_of(method).rule.batches != NEW_BATCHES:
            raise ValueError("successive steps must share batches, and here they do not")
        chosen = tuple(sorted(options.items()))
        runs = TrainedRuns(
            self.task, method, chosen, size.seeds, size.iterations, size.batch_size, label=label
        )
        runs.content()  # refuses options out of range
        return runs

    def losses(self, result: Trajectories) -> tuple[Array, Array]:
        """See :meth:`Compared.losses`."""
        return result.k, result.metrics["loss"]


def problem_of(name: str) -> Compared:
    """The problem of a name, or logistic regression on the LIBSVM file of a path.

    Args:
        name: one of ``heavystep compare --help``, a data set of ``heavystep data list``, or a path.

    Raises:
        ValueError: there is no such problem, or a file is not in LIBSVM's format.
        OSError: a file is missing.
        ModuleNotFoundError: the data of a task come with scikit-learn, which is not installed.
    """
    if name in SECTION_5:
        return SimulatedProblem(name, SECTION_5[name])
    if name in TASKS:
        trained = TrainedProblem(name, TASKS[name])
        trained.terms  # noqa: B018  # so that what is missing is told now
        return trained
    if name in CATALOGUE:
        known = SimulatedProblem(name, ProblemSpec("libsvm", name))
        known.terms  # noqa: B018
        return known
    path = expanded(Path(name))
    if not path.is_file():
        names = (*SECTION_5, *TASKS, *CATALOGUE)
        raise ValueError(
            f"problem must be one of {', '.join(map(repr, names))}, or the path of a LIBSVM file, "
            f"got {name!r}{validation.did_you_mean(name, names)}"
        )
    data = load(path)
    try:
        problem = SparseLogistic(data.rows.unit_length(), binary_labels(data.labels))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return SimulatedProblem(path.name.partition(".")[0] or path.name, GivenProblem(problem))
