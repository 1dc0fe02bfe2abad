"""What the theorems promise for the runs of a figure."""

from typing import Any

import numpy as np

from heavystep import theory
from heavystep.arrays import Array, square
from heavystep.problems import FiniteSum
from heavystep.schedules import PowerLaw, Schedules
from heavystep.simulation.method import Method
from heavystep.sweeps.specification import RunSpec
from heavystep.theory.diminishing_step_bounds import DiminishingSteps


def bound(run: RunSpec, k: Array) -> Array:
    """The bound of Theorem 2 or 3 on the mean of a standard run's metric."""
    bounds: Array = _promise(run).bound(k)
    return bounds


def residual(run: RunSpec) -> float:
    """What the bound of Theorem 2 or 3 tends to: the size of the neighbourhood."""
    return float(_promise(run).bound(10**15))


def rate(run: RunSpec, k: Array) -> Array:
    """1 / S_k of Theorems 6 and 7, for a diminishing run."""
    problem, method = run.problem.finite_sum(), run.method
    laws = Schedules(_law(method.eta), _law(method.beta), _law(method.gamma_max))
    steps = DiminishingSteps(method.rule, problem.L, laws, method.c, method.omega)
    rates: Array = steps.rate(k)
    return rates


def _law(schedule: float | PowerLaw) -> PowerLaw:
    assert isinstance(schedule, PowerLaw)
    return schedule


def _promise(run: RunSpec) -> Any:
    problem, method = run.problem.finite_sum(), run.method
    constants = {**_constants(problem, method), "omega": method.omega}
    if problem.convex:
        dist0_sq = float(square(problem.theta0 - problem.theta_star))
        return theory.convex(method.rule, **constants, sigma2=problem.sigma2, dist0_sq=dist0_sq)
    gap0 = float(np.asarray(problem.gap(problem.theta0)))
    return theory.nonconvex(
        method.rule, **constants, rho=problem.rho, delta=problem.delta, gap0=gap0
    )


def _constants(problem: FiniteSum, method: Method) -> dict[str, Any]:
    return {"L": problem.L, "beta": method.beta, "c": method.c, "gamma_max": method.gamma_max}
