"""The theorem about a method with constant momentum and cap, with the constants of a problem."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from heavystep import theory
from heavystep.arrays import square
from heavystep.problems import FiniteSum


def promise(problem: FiniteSum, rule: str, options: Mapping[str, Any]) -> Any:
    """Theorem 2 for a convex problem, Theorem 3 for another one; ``bound(k)`` is its bound.

    Args:
        problem: has the constants, and the point where runs start.
        rule: its name in :mod:`heavystep.theory`.
        options: those of the method: momentum, c, max_step, and decrease_factor of a line search.

    Raises:
        ValueError: a constant is outside what the theorem admits.
    """
    constants = {
        "L": problem.L,
        "beta": options["momentum"],
        "c": options["c"],
        "gamma_max": options["max_step"],
        "omega": options.get("decrease_factor"),
    }
    if problem.convex:
        dist0_sq = float(square(problem.theta0 - problem.theta_star))
        return theory.convex(rule, **constants, sigma2=problem.sigma2, dist0_sq=dist0_sq)
    gap0 = float(np.asarray(problem.gap(problem.theta0)))
    return theory.nonconvex(rule, **constants, rho=problem.rho, delta=problem.delta, gap0=gap0)
