"""Stored curves against what the theorems promise: a certificate for each, with its slack."""

from collections.abc import Iterable, Iterator
from functools import cache
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from heavystep.arrays import Array
from heavystep.certificates.theorems import promise
from heavystep.methods import METHODS
from heavystep.problems import FiniteSum, paper_cosine, paper_least_squares
from heavystep.report.reading import Run

ROUNDING = 1e-6
"""The rounding of a step, relative to its bound."""
PROBLEMS = {"least squares": paper_least_squares, "cosine": paper_cosine}


class Certificate(NamedTuple):
    """A bound, what was measured where it is tightest, and how far apart they are."""

    run: int
    """The number of the run among those of the folder."""
    result: str
    quantity: str
    k: float
    measured: float
    bound: float
    slack: float
    """1 - measured / bound: 0 is tight, below 0 the bound is broken."""
    holds: bool


def certificates(runs: Iterable[Run]) -> list[Certificate]:
    """Everything that a theorem says about these runs."""
    return [found for number, run in enumerate(runs) for found in _about(number, run)]


def _about(number: int, run: Run) -> Iterator[Certificate]:
    if {"lowest", "highest"} <= set(run.metrics):
        yield from _steps(number, run)
    try:
        problem, rule = _problem(run), _rule(run)
        if problem is None or not rule or not _standard(run):
            return
        promised = promise(problem, rule, run.about.options)
        bounds: Array = promised.bound(run.k)
    except (TypeError, ValueError, KeyError):  # a constant that no theorem admits
        return
    name, quantity, metric = (
        ("Theorem 2", "mean of F(average) - F*, less its standard error", "gap_average")
        if problem.convex
        else ("Theorem 3", "mean of the least |grad F|^2, less its standard error", "best")
    )
    if metric not in run.metrics:
        return
    values = run.metrics[metric]
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    measured = values.mean(axis=0) - error
    at = int(np.argmax(np.where(np.isfinite(measured), measured / bounds, np.inf)))
    ratio = float(measured[at] / bounds[at])
    yield Certificate(
        number, name, quantity, float(run.k[at]), float(measured[at]), float(bounds[at]),
        1.0 - ratio, ratio <= 1.0,
    )  # fmt: skip


def _steps(number: int, run: Run) -> Iterator[Certificate]:
    """Lemma 2, or 5 where schedules fall: no step is outside its bounds, in any run."""
    name = "Lemma 2" if _standard(run) else "Lemma 5"
    least = float(run.metrics["lowest"].min())
    most = float(run.metrics["highest"].max())
    if not (isfinite(least) and isfinite(most) and least > 0.0):
        return  # no theorem covers the rule: nothing was measured
    end = float(run.k[-1])
    yield Certificate(number, name, "gamma_min / least step", end, 1.0 / least, 1.0,
                      1.0 - 1.0 / least, 1.0 / least <= 1.0 + ROUNDING)  # fmt: skip
    yield Certificate(number, name, "largest step / gamma_max", end, most, 1.0, 1.0 - most,
                      most <= 1.0 + ROUNDING)  # fmt: skip


def _problem(run: Run) -> FiniteSum | None:
    """The problem of Section 5 that the runs were on."""
    spec = run.about.content.get("problem", {})
    return None if spec.get("name") not in PROBLEMS else _built(spec["name"], spec["setting"])


@cache
def _built(name: str, setting: Any) -> FiniteSum:
    """Once for all runs on it: its constants take longer than everything else of a page."""
    build: Any = PROBLEMS[name]
    problem: FiniteSum = build(setting)
    return problem


def _rule(run: Run) -> str:
    """The name of the rule in the theorems; empty if none covers it."""
    known = METHODS.get(run.about.method)
    return "" if known is None else known.chosen(run.about.options).theory


def _standard(run: Run) -> bool:
    """Whether it is Section 2's rule on single samples, with constant momentum and cap."""
    options = run.about.options
    constant = all(isinstance(options.get(name), float) for name in ("momentum", "max_step"))
    return (
        constant
        and options.get("scaling") == "theory"
        and options.get("lr") == 1.0
        and options.get("steps_per_epoch") is None
        and run.about.batch_size == 1
    )
