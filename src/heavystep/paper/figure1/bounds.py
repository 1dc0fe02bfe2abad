"""What the theorems promise for the runs of Figure 1."""

from typing import Any

from heavystep.arrays import Array
from heavystep.certificates.theorems import promise
from heavystep.schedules import Schedules
from heavystep.sweeps.specification import ProblemSpec, RunSpec
from heavystep.theory.diminishing import DiminishingSteps


def bound(run: RunSpec, k: Array) -> Array:
    """The bound of Theorem 2 or 3 on the mean of a standard run's metric."""
    bounds: Array = _promise(run).bound(k)
    return bounds


def residual(run: RunSpec) -> float:
    """The limit of the bound of Theorem 2 or 3, which is the size of the neighbourhood."""
    return float(_promise(run).bound(10**15))


def rate(run: RunSpec, k: Array) -> Array:
    """1 / S_k of Theorems 6 and 7, for a diminishing run."""
    method, options = run.method, dict(run.method.options)
    laws = Schedules(options["lr"], options["momentum"], options["max_step"])
    steps = DiminishingSteps(
        method.theory, _problem(run).L, laws, options["c"], options.get("decrease_factor")
    )
    rates: Array = steps.rate(k)
    return rates


def _problem(run: RunSpec) -> Any:
    assert isinstance(run.problem, ProblemSpec)
    return run.problem.finite_sum()


def _promise(run: RunSpec) -> Any:
    return promise(_problem(run), run.method.theory, dict(run.method.options))
