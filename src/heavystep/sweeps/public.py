"""Sweeps for users: every method on every problem, from several seeds."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from heavystep import validation
from heavystep.data.catalogue import CATALOGUE
from heavystep.files import expanded
from heavystep.problems.variance_reduced import VarianceReduced, original
from heavystep.records import Trajectories
from heavystep.simulation.configuration import Configuration, configure
from heavystep.simulation.layout import LAYOUTS
from heavystep.simulation.run import Problem
from heavystep.sweeps.engines import Engine, engine_of
from heavystep.sweeps.output_folder import claim_folder, runs_folder
from heavystep.sweeps.runner import complete
from heavystep.sweeps.specification import GivenProblem, ProblemSpec, RunSpec
from heavystep.sweeps.store import Store

FOLDER = "sweep"
"""The folder within the output folder, beside those of the figures."""
SECTION_5 = {
    "least squares": ProblemSpec("least squares", 0.0),
    "noisy least squares": ProblemSpec("least squares", 0.3),
    "cosine": ProblemSpec("cosine", "strong_growth"),
    "noisy cosine": ProblemSpec("cosine", "noise"),
}
"""The problems of the paper's Section 5, by the names that users call them by."""


def sweep(
    problems: str | Problem | Iterable[str] | Mapping[str, str | Problem],
    methods: str | Iterable[str] | Mapping[str, Any],
    *,
    iterations: int,
    seeds: int = 5,
    batch_size: int = 1,
    every: int | None = None,
    out: str | Path = "results",
    engine: str | Engine = "local",
    jobs: int | None = None,
) -> dict[tuple[str, str], Trajectories]:
    """Run every method on every problem from several seeds, and keep the results in a folder.

    Results that are in the folder are read and not computed again. A sweep can be stopped at any
    moment: called again it goes on where it was, and it loses at most the runs in flight. The
    results do not depend on the engine.

    Args:
        problems: a problem, several names, or problems by labels of your own. A problem is a name
            or an object of :mod:`heavystep.problems`. The names are ``"least squares"``,
            ``"noisy least squares"``, ``"cosine"`` and ``"noisy cosine"`` for the problems of
            Section 5, and those of ``heavystep data list`` for logistic regression on a LIBSVM
            data set.
        methods: a method, several names, or methods by labels of your own. A method is a name of
            ``heavystep methods``, or a pair of a name and a dict of options.
        iterations: steps of each run, >= 1.
        seeds: how many runs of each method on each problem, >= 1.
        batch_size: terms of the problem that are sampled at each step, >= 1.
        every: metrics are recorded every so many steps; None: about 200 times on a logarithmic
            grid.
        out: the folder; an empty or new one, or one that heavystep made.
        engine: ``"local"`` for threads of this process, ``"ray"`` for a Ray cluster, or an object
            of :mod:`heavystep.sweeps.engines`.
        jobs: how many runs at a time, >= 1; None: as many as there are cores.

    Returns:
        By the labels of problem and method. Each result has the steps ``k`` at which metrics were
        recorded, the ``seeds``, and ``metrics`` by name: arrays of a row for each seed.

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
    for name, value in (("iterations", iterations), ("seeds", seeds), ("batch_size", batch_size)):
        validation.integer(name, value, least=1)
    if every is not None:
        validation.integer("every", every, least=1)
    doer = engine_of(engine, jobs=jobs) if isinstance(engine, str) else engine
    known = {label: _problem(label, problem) for label, problem in _labelled(problems).items()}
    configured = {label: _method(label, method) for label, method in _labelled(methods).items()}
    runs = {
        (problem, method): RunSpec(
            known[problem], configured[method], seeds, iterations, batch_size, every,
            label=f"{problem}, {method}",
        )
        for problem in known
        for method in configured
    }  # fmt: skip
    keys = {place: run.key() for place, run in runs.items()}
    out = expanded(Path(out))
    claim_folder(out)
    store = Store(runs_folder(out, FOLDER))
    results = complete({keys[place]: run for place, run in runs.items()}, store, engine=doer)
    return {place: results[key] for place, key in keys.items()}


def _labelled(given: Any) -> Mapping[str, Any]:
    """What was given, by labels: a name is its own label, and an object is called by its class."""
    if isinstance(given, Mapping):
        return given
    if isinstance(given, str):
        return {given: given}
    if isinstance(given, (*LAYOUTS, VarianceReduced)):
        return {type(given).__name__: given}
    match given:
        case (str(name), Mapping()):
            return {name: given}
    names = list(given)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"without labels there can be names only, got {name!r}: pass a dict")
    return {name: name for name in names}


def _problem(label: str, given: Any) -> ProblemSpec | GivenProblem:
    if isinstance(given, str):
        validation.choice("problem", given, (*SECTION_5, *CATALOGUE))
        return SECTION_5.get(given) or ProblemSpec("libsvm", given)
    if isinstance(original(given), tuple(LAYOUTS)):
        return GivenProblem(given)
    known = ", ".join(kind.__name__ for kind in LAYOUTS)
    raise TypeError(
        f"problem {label!r} must be a name or one of {known}, which may be VarianceReduced, "
        f"got {given!r}"
    )


def _method(label: str, given: Any) -> Configuration:
    if isinstance(given, Configuration):
        return given
    match given:
        case str(name):
            options: Mapping[str, Any] = {}
        case (str(name), Mapping() as options):
            pass
        case _:
            raise TypeError(
                f"method {label!r} must be a name, or a pair of a name and a dict of options, "
                f"got {given!r}"
            )
    try:
        return configure(name, **options)
    except (TypeError, ValueError) as error:
        raise type(error)(f"method {label!r}: {error}") from None
