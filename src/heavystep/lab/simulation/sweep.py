"""Simulated runs as data, and sweeps for users: every method on every problem, several seeds."""

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, lru_cache
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse

from heavystep import validation
from heavystep.arrays import Array
from heavystep.lab.data import LIBSVM, binary_labels, load, locate, unit_length
from heavystep.lab.engines import Engine
from heavystep.lab.simulation.configuration import VERSION, Configuration, configure
from heavystep.lab.simulation.problems import KNOWN
from heavystep.lab.simulation.run import log_grid, metric_names, simulate
from heavystep.lab.store import RUNS, Columns, Store, claim_folder, expanded
from heavystep.lab.sweeps import Advance, Progress, Run, complete
from heavystep.problems import (
    Problem,
    SparseLogistic,
    paper_cosine,
    paper_least_squares,
)
from heavystep.records import Trajectories

FORMAT = 2
"""The layout of :meth:`Simulated.content`."""
FOLDER = "sweep"  # the folder within the output folder, beside those of the figures


def logistic_on(name: str) -> SparseLogistic:
    """Logistic regression on a LIBSVM data set, as Appendix E states it.

    It has no penalty and no intercept, and its rows have unit length. A file is read once.
    """
    return _read(name, locate(name))


# By the file as well: the data folder may be another one at the next call.
@cache
def _read(name: str, file: Path) -> SparseLogistic:
    data = load(name)
    return SparseLogistic(unit_length(data.inputs), binary_labels(data.targets))


PROBLEMS: dict[str, Callable[[Any], Problem]] = {
    "least squares": cache(paper_least_squares), "cosine": cache(paper_cosine),
    "libsvm": logistic_on,
}  # fmt: skip
"""The kinds of problem that a name and a setting describe."""


@lru_cache(16)
def fingerprint(problem: Any) -> str:
    """The hash of the numbers that a problem is made of, wherever they came from."""
    digest = hashlib.sha256()

    def add(numbers: Mapping[str, Any]) -> None:
        for name, value in numbers.items():
            digest.update(f"{name}:".encode())
            if issparse(value):
                indptr, indices = value.indptr.astype(np.int64), value.indices.astype(np.int32)
                rows = {"indptr": indptr, "indices": indices, "values": value.data}
                add({**rows, "dim": value.shape[1]})
            elif isinstance(value, np.ndarray):
                digest.update(f"{value.dtype.str}{value.shape}".encode())
                digest.update(np.ascontiguousarray(value).data)
            else:
                digest.update(repr(value).encode())

    add({field.name: getattr(problem, field.name) for field in fields(problem)})
    return digest.hexdigest()[:24]


@dataclass(frozen=True)
class ProblemSpec:
    """A problem: one of :data:`PROBLEMS` with its setting, or one that somebody has made."""

    name: str
    setting: float | str = ""
    given: Problem | None = None

    def build(self) -> Any:
        return PROBLEMS[self.name](self.setting) if self.given is None else self.given

    def identity(self) -> dict[str, Any]:
        """Everything that identifies the problem, for the key of a run."""
        known: dict[str, Any] = {"name": self.name}
        if self.given is None:
            known["setting"] = self.setting
        # Numbers that are drawn here may differ in the last place on another processor, and are no
        # part of the key.
        if self.given is not None or self.name == "libsvm":
            known["numbers"] = fingerprint(self.build())
        return known


SECTION_5 = {
    "least squares": ProblemSpec("least squares", 0.0),
    "noisy least squares": ProblemSpec("least squares", 0.3),
    "cosine": ProblemSpec("cosine", "strong_growth"),
    "noisy cosine": ProblemSpec("cosine", "noise"),
}
"""The problems of the paper's Section 5, by the names that users call them by."""


@dataclass(frozen=True)
class Simulated(Run):
    """Simulated runs of a method on a problem: everything that decides their numbers.

    Seeds are 0, 1, 2, ... The last record of the metrics is at the end.
    """

    threads: ClassVar[bool] = True
    problem: ProblemSpec
    method: Configuration
    seeds: int
    iterations: int
    batch_size: int = 1
    every: int | None = None
    label: str = field(default="", compare=False)

    @property
    def work(self) -> float:  # type: ignore[override]
        return self.seeds * self.iterations

    def grid(self) -> Array:
        if self.every is None:
            return log_grid(self.iterations)
        return np.append(np.arange(self.every, self.iterations, self.every), self.iterations)

    def content(self) -> dict[str, Any]:
        method, problem = self.method, self.problem.build()
        versions = {"simulation": VERSION, "problem": problem.version}
        options = {"options": dict(method.options), "average": method.average}
        sizes = {n: getattr(self, n) for n in ("seeds", "iterations", "batch_size", "every")}
        return {
            "format": FORMAT, "problem": self.problem.identity(), "versions": versions,
            "method": {"name": method.method, **options}, **sizes,
        }  # fmt: skip

    def compute(self, advance: Advance) -> Columns:
        """Run all seeds, one after another: a sweep has as many runs as there are cores."""
        grid = self.grid()
        done = simulate(
            self.problem.build(), self.method, seeds=self.seeds, iterations=self.iterations,
            grid=grid, batch_size=self.batch_size, threads=1, progress=advance,
        )  # fmt: skip
        return {
            "seed": np.repeat(np.arange(self.seeds), len(grid)),
            "k": np.tile(grid, self.seeds),
            **{name: values.reshape(-1) for name, values in done.metrics.items()},
        }

    def trajectories(self, columns: Columns) -> Trajectories:
        rows = {name: values.reshape(self.seeds, -1) for name, values in columns.items()}
        metrics = {name: rows[name] for name in metric_names(self.problem.build())}
        return Trajectories(rows["k"][0], tuple(range(self.seeds)), metrics)


Results = dict[Simulated, Trajectories]


def simulated(
    runs: Collection[Simulated], folder: Path, progress: Progress | None = None, *,
    engine: str = "local", jobs: int | None = None, address: str | None = None,
) -> Results:  # fmt: skip
    """The results of runs: those in the folder are read, the others made."""
    found = complete(runs, Store(folder), progress, Engine(engine, jobs, address))
    return {run: run.trajectories(found[run.key()]) for run in runs}


def sweep(
    problems: str | Problem | Iterable[str] | Mapping[str, str | Problem],
    methods: str | Iterable[str] | Mapping[str, Any],
    *,
    iterations: int,
    seeds: int = 5,
    batch_size: int = 1,
    every: int | None = None,
    out: str | Path = "results",
    engine: str = "local",
    jobs: int | None = None,
    address: str | None = None,
) -> dict[tuple[str, str], Trajectories]:
    """Run every method on every problem from several seeds, and keep the results in a folder.

    Results that are in the folder are read and not computed again. A sweep can be stopped at any
    moment: called again it goes on where it was, and it loses at most the runs in flight. The
    results do not depend on the engine.

    Args:
        problems: a problem, several names, or problems by labels of your own. A problem is an
            object of :mod:`heavystep.problems` or a name: ``"least squares"``, ``"noisy least
            squares"``, ``"cosine"`` and ``"noisy cosine"`` are those of Section 5; those of
            ``heavystep data list`` mean logistic regression on a LIBSVM data set.
        methods: a method, several names, or methods by labels of your own. A method is a name of
            ``heavystep methods``, or a pair of a name and a dict of options.
        iterations: steps of each run.
        seeds: how many runs of each method on each problem.
        batch_size: terms of the problem that are sampled at each step.
        every: steps between two records of the metrics; None: about 200 records on a logarithmic
            grid.
        out: the folder; an empty or new one, or one that heavystep made.
        engine: ``"local"`` for this machine, ``"ray"`` or ``"dask"`` for a cluster.
        jobs: how many runs at a time; None: as many as there are cores.
        address: of a started cluster; None: one is started on this machine.

    Returns:
        By the labels of problem and method: the steps ``k`` at which metrics were recorded, the
        ``seeds``, and ``metrics`` by name, arrays of a row for each seed.

    Raises:
        ValueError: an argument is out of range, the folder holds other files, or runs failed; all
            other runs are then complete and kept.
        TypeError: a problem is neither a name nor an object that can be simulated, or a method has
            no such option.
        OSError: a data set is missing.

    >>> import tempfile
    >>> methods = {"SHB-PS": "SHBPolyak", "capped": ("SHBPolyak", {"max_step": 0.01})}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = sweep("least squares", methods, iterations=100, seeds=2, out=folder)
    >>> results["least squares", "capped"].metrics["gap_last"].shape[0]
    2
    """
    sizes = {"iterations": iterations, "seeds": seeds, "batch_size": batch_size, "every": every}
    for name, value in sizes.items():
        if name != "every" or value is not None:
            validation.integer(name, value, least=1)
    known = {label: _problem(label, given) for label, given in _labelled(problems).items()}
    for problem in known.values():  # faults of data are told now
        problem.build()
    configured = {label: _method(label, given) for label, given in _labelled(methods).items()}
    runs = {
        place: Simulated(
            known[place[0]], configured[place[1]], seeds, iterations, batch_size, every,
            label=", ".join(place),
        )
        for place in product(known, configured)
    }  # fmt: skip
    out = expanded(out)
    claim_folder(out)
    found = simulated(runs.values(), out / FOLDER / RUNS, engine=engine, jobs=jobs, address=address)
    return {place: found[run] for place, run in runs.items()}


def _labelled(given: Any) -> Mapping[str, Any]:
    """Problems by label: a name is its own label, and an object is called by its class."""
    if isinstance(given, Mapping):
        return given
    if isinstance(given, Problem):
        return {type(given).__name__: given}
    match given:
        case str(name) | (str(name), Mapping()):
            return {name: given}
    names = list(given)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"without labels there can be names only, got {name!r}: pass a dict")
    return {name: name for name in names}


def _problem(label: str, given: Any) -> ProblemSpec:
    if isinstance(given, str):
        validation.choice("problem", given, (*SECTION_5, *LIBSVM))
        return SECTION_5.get(given) or ProblemSpec("libsvm", given)
    if type(given) in KNOWN:
        return ProblemSpec(type(given).__name__, given=given)
    known = ", ".join(kind.__name__ for kind in KNOWN)
    raise TypeError(f"problem {label!r} must be a name or one of {known}, got {given!r}")


def _method(label: str, given: Any) -> Configuration:
    if isinstance(given, Configuration):
        return given
    try:
        match given:
            case str(name):
                return configure(name)
            case (str(name), Mapping() as options):
                return configure(name, **options)
    except (TypeError, ValueError) as error:
        raise type(error)(f"method {label!r}: {error}") from None
    raise TypeError(
        f"method {label!r} must be a name, or a pair of a name and a dict of options, got {given!r}"
    )
