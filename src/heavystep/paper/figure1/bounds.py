"""What the theorems promise for the runs of Figure 1."""

from typing import Any

import numpy as np

from heavystep import theory
from heavystep.arrays import Array, square
from heavystep.schedules import Schedules
from heavystep.sweeps.specification import ProblemSpec, RunSpec
from heavystep.theory.diminishing_step_bounds import DiminishingSteps


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
    problem, method, options = _problem(run), run.method, dict(run.method.options)
    constants = {
        "L": problem.L,
        "beta": options["momentum"],
        "c": options["c"],
        "gamma_max": options["max_step"],
        "omega": options.get("decrease_factor"),
    }
    if problem.convex:
        dist0_sq = float(square(problem.theta0 - problem.theta_star))
        return theory.convex(method.theory, **constants, sigma2=problem.sigma2, dist0_sq=dist0_sq)
    gap0 = float(np.asarray(problem.gap(problem.theta0)))
    return theory.nonconvex(
        method.theory, **constants, rho=problem.rho, delta=problem.delta, gap0=gap0
    )
