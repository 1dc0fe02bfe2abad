"""An experiment as data: problems, and runs of the engine on them; nothing here computes."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache

import numpy as np

from heavystep.arrays import Array
from heavystep.files import hash_sources
from heavystep.problems import FiniteSum, SparseLogistic, paper_cosine, paper_least_squares
from heavystep.simulation.method import Method
from heavystep.simulation.run import Problem, log_grid
from heavystep.sweeps.libsvm import fingerprint, logistic_on

MATHEMATICS = (
    "arrays.py",
    "rules",
    "simulation",
    "problems",
    "schedules.py",
    "sparse.py",
    "theory",
)
"""What a run's numbers come from; claims and plots do not enter."""
PROBLEMS: dict[str, Callable[..., Problem]] = {
    "least squares": cache(paper_least_squares),
    "cosine": cache(paper_cosine),
    "libsvm": logistic_on,
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

    def build(self) -> Problem:
        """The problem itself."""
        return PROBLEMS[self.name](self.setting)

    def finite_sum(self) -> FiniteSum:
        """The problem itself, one that has the constants of the theory."""
        problem = self.build()
        assert isinstance(problem, FiniteSum)
        return problem

    def data(self) -> str:
        """What identifies the data; empty for a problem that the sources define."""
        problem = self.build()
        return fingerprint(problem) if isinstance(problem, SparseLogistic) else ""


@dataclass(frozen=True)
class RunSpec:
    """Everything that decides the numbers of a run."""

    problem: ProblemSpec
    method: Method
    seeds: int
    iterations: int
    batch_size: int = 1
    every: int | None = None
    """Metrics are recorded every so many steps and at the end; None: on a logarithmic grid."""

    def grid(self) -> Array:
        """Numbers of steps after which metrics are recorded."""
        if self.every is None:
            return log_grid(self.iterations)
        return np.append(np.arange(self.every, self.iterations, self.every), self.iterations)

    def text(self) -> str:
        """The full specification with the data and the version of the mathematics, as JSON."""
        content = {
            "run": asdict(self),
            "data": self.problem.data(),
            "mathematics": mathematics_version(),
        }
        return json.dumps(content, sort_keys=True)

    def key(self) -> str:
        """The name under which the run is stored."""
        return hashlib.sha256(self.text().encode()).hexdigest()[:24]

    def size(self) -> str:
        """How many runs of which length."""
        return f"{self.seeds} runs of {self.iterations:,} steps"


def describe(run: RunSpec) -> str:
    """A short name for progress and messages."""
    method = run.method
    momentum = method.beta if isinstance(method.beta, float) else "diminishing"
    step = f", step {method.gamma_max:g}" if method.rule == "fixed" else ""
    return f"{run.problem.name} {run.problem.setting}, {method.rule}{step}, beta {momentum}"
