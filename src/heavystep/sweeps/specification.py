"""A sweep as data: problems, and runs of methods on them. Nothing here computes a run."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from heavystep.arrays import Array
from heavystep.data import binary_labels, load
from heavystep.data.locate import locate
from heavystep.problems import (
    FiniteSum,
    SparseLogistic,
    VarianceReduced,
    paper_cosine,
    paper_least_squares,
)
from heavystep.problems.variance_reduced import original
from heavystep.simulation.configuration import Configuration
from heavystep.simulation.run import Problem, lanes_for, log_grid, metric_names
from heavystep.sweeps.engines import Job
from heavystep.sweeps.runs import Runs
from heavystep.sweeps.seeds import some_seeds

FORMAT = 2
"""The layout of :meth:`RunSpec.content`. Runs of the first were named by a hash of the sources."""


def logistic_on(name: str) -> SparseLogistic:
    """Logistic regression on a LIBSVM data set, as Appendix E states it.

    It has no penalty and no intercept, and its rows have unit length. A file is read once.

    Args:
        name: a data set of the catalogue.

    Raises:
        ValueError: the file is damaged, or not the published one.
        OSError: there is no file, or it cannot be read.
    """
    return _read(name, locate(name))


# By the file as well: the data folder may be another one at the next call.
@cache
def _read(name: str, file: Path) -> SparseLogistic:
    data = load(name)
    return SparseLogistic(data.rows.unit_length(), binary_labels(data.labels))


class Known(NamedTuple):
    """A kind of problem that a name and a setting describe."""

    build: Callable[[Any], Problem]
    """The problem, from its setting."""
    from_files: bool
    """Whether its numbers come from files, so that they are part of the key of a run. Numbers that
    are drawn here may differ in the last place on another processor, and are no part of it."""


PROBLEMS = {
    "least squares": Known(cache(paper_least_squares), from_files=False),
    "cosine": Known(cache(paper_cosine), from_files=False),
    "libsvm": Known(logistic_on, from_files=True),
}


@dataclass(frozen=True)
class ProblemSpec:
    """A problem by its name: one of :data:`PROBLEMS`, with its setting."""

    name: str
    setting: float | str

    @property
    def kind(self) -> str:
        """Problems of one kind have the same kernels."""
        return self.name

    def build(self) -> Problem:
        """The problem itself."""
        return PROBLEMS[self.name].build(self.setting)

    def finite_sum(self) -> FiniteSum:
        """The problem itself, if it is one that has the constants of the theory."""
        problem = self.build()
        assert isinstance(problem, FiniteSum)
        return problem

    def identity(self) -> dict[str, Any]:
        """What tells it from other problems, for the key of a run."""
        known: dict[str, Any] = {"name": self.name, "setting": self.setting}
        if PROBLEMS[self.name].from_files:
            known["numbers"] = fingerprint(self.build())
        return known


@dataclass(frozen=True)
class GivenProblem:
    """A problem that somebody has made; its numbers tell it from others."""

    problem: Problem

    @property
    def kind(self) -> str:
        """See :class:`ProblemSpec`."""
        return type(original(self.problem)).__name__

    def build(self) -> Problem:
        """The problem itself."""
        return self.problem

    def identity(self) -> dict[str, Any]:
        """What tells it from other problems, for the key of a run."""
        problem, given = original(self.problem), self.problem
        known = {"name": type(problem).__name__, "numbers": fingerprint(problem)}
        if isinstance(given, VarianceReduced):
            reduction = {"probability": given.probability, "curvature": given.curvature}
            return {**known, "reduction": reduction}
        return known


def versions_of(problem: Problem) -> dict[str, int]:
    """The versions that a problem adds to those of a method."""
    versions = {"problem": original(problem).version}
    if isinstance(problem, VarianceReduced):
        versions["reduction"] = problem.version
    return versions


_FINGERPRINTS: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def fingerprint(problem: Problem) -> str:
    """The hash of the numbers that a problem is made of, wherever they came from."""
    if problem not in _FINGERPRINTS:
        digest = hashlib.sha256()
        _add(digest, problem)
        _FINGERPRINTS[problem] = digest.hexdigest()[:24]
    return _FINGERPRINTS[problem]


def _add(digest: Any, value: Any) -> None:
    if is_dataclass(value):
        for part in fields(value):
            digest.update(f"{part.name}:".encode())
            _add(digest, getattr(value, part.name))
    elif isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).data)
    else:
        digest.update(repr(value).encode())


@dataclass(frozen=True)
class RunSpec(Runs):
    """Simulated runs of a method on a problem: everything that decides their numbers."""

    problem: ProblemSpec | GivenProblem
    method: Configuration
    seeds: int
    """How many; the seeds are 0, 1, 2, ..."""
    iterations: int
    batch_size: int = 1
    every: int | None = None
    """How many steps lie between two records of the metrics, which are also recorded at the end.
    None: a logarithmic grid."""
    label: str = field(default="", compare=False)
    """What progress and messages call it. It decides no number."""

    def grid(self) -> Array:
        """The numbers of steps after which metrics are recorded."""
        if self.every is None:
            return log_grid(self.iterations)
        return np.append(np.arange(self.every, self.iterations, self.every), self.iterations)

    def content(self) -> dict[str, Any]:
        """The full specification, without the label."""
        method = self.method
        return {
            "format": FORMAT,
            "problem": self.problem.identity(),
            "method": {
                "name": method.method,
                "options": dict(method.options),
                "average": method.average,
            },
            "versions": {**method.versions(), **versions_of(self.problem.build())},
            "seeds": self.seeds,
            "iterations": self.iterations,
            "batch_size": self.batch_size,
            "every": self.every,
        }

    def metric_names(self) -> tuple[str, ...]:
        """What is recorded."""
        return metric_names(self.problem.build())

    @property
    def together(self) -> int:
        """How many seeds one job can run side by side."""
        return lanes_for(self.problem.build())

    def job(self, seeds: tuple[int, ...]) -> Job:
        """The runs of some seeds."""
        arguments = (self.method, seeds, self.iterations, self.grid(), self.batch_size)
        amount = len(seeds) * self.iterations
        kind = self.problem.kind, self.method.rule.name, self.method.form.name
        return Job(self.label, some_seeds, arguments, amount, self.problem, kind)
