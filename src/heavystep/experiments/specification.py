"""An experiment as data: problems, runs, curves and panels; nothing here computes."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from heavystep.engine.method import Method
from heavystep.files import hash_sources
from heavystep.problems import FiniteSum, paper_cosine, paper_least_squares

MATHEMATICS = ("arrays.py", "rules", "engine", "problems", "schedules.py", "theory")
"""What a run's numbers come from; claims and plots do not enter."""
PROBLEMS: dict[str, Callable[..., FiniteSum]] = {
    "least squares": paper_least_squares,
    "cosine": paper_cosine,
}


@cache
def mathematics_version() -> str:
    """Hash of the sources that decide a run's numbers."""
    return hash_sources(MATHEMATICS)[:16]


@dataclass(frozen=True)
class ProblemSpec:
    """One of :data:`PROBLEMS` with its setting."""

    name: str
    setting: float | str

    def build(self) -> FiniteSum:
        """The problem itself."""
        return _built(self)


@cache
def _built(spec: ProblemSpec) -> FiniteSum:
    return PROBLEMS[spec.name](spec.setting)


@dataclass(frozen=True)
class RunSpec:
    """Everything that decides the numbers of a run."""

    problem: ProblemSpec
    method: Method
    seeds: int
    iterations: int

    def text(self) -> str:
        """The full specification with the version of the mathematics, as canonical JSON."""
        content = {"run": asdict(self), "mathematics": mathematics_version()}
        return json.dumps(content, sort_keys=True)

    def key(self) -> str:
        """The name under which the run is stored."""
        return hashlib.sha256(self.text().encode()).hexdigest()[:24]


@dataclass(frozen=True)
class Curve:
    """One line of a panel."""

    label: str
    run: RunSpec
    metric: str
    """A column of :data:`heavystep.engine.trajectory.METRICS`."""
    diminishing: bool = False
    """Drawn as the largest of all runs, because its theorem holds almost surely."""
    style: int = 0
    """Colour and line style, the same for one momentum in every panel."""


@dataclass(frozen=True)
class Panel:
    """One set of axes."""

    id: str
    title: str
    ylabel: str
    curves: tuple[Curve, ...]


@dataclass(frozen=True)
class Figure:
    """A figure of the paper."""

    name: str
    title: str
    panels: tuple[Panel, ...]

    def runs(self) -> dict[str, RunSpec]:
        """All runs by key, each once."""
        return {curve.run.key(): curve.run for panel in self.panels for curve in panel.curves}


def describe(run: RunSpec) -> str:
    """A short name for progress and messages."""
    method = run.method
    momentum: Any = method.beta if isinstance(method.beta, float) else "diminishing"
    return f"{run.problem.name} {run.problem.setting}, {method.rule}, beta {momentum}"
