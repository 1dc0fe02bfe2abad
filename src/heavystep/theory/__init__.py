"""The paper's lemmas and theorems as functions: constants, conditions and bounds.

A file for each family of results; :mod:`heavystep.theory.registry` makes a function a result, and
lists them. The rules that they cover are in :mod:`heavystep.theory.rules`. Every function takes
numbers and returns numbers, in float64; ``k`` may be an array. A violated condition raises
``ValueError`` with the theorem, the inequality and the numbers.
"""

from heavystep.theory.advice import advice, side_by_side
from heavystep.theory.diminishing import (
    convex_diminishing,
    convex_tail_bound,
    nonconvex_diminishing,
    nonconvex_tail_bound,
)
from heavystep.theory.lemmas import (
    almost_supermartingale,
    basic_inequality,
    check_schedules,
    decoupling_identity,
    decoupling_inequality,
    diminishing_basic_inequality,
    diminishing_step_bounds,
    step_bounds,
)
from heavystep.theory.own import averaged, averaged_sampled, directional_step, last_iterate
from heavystep.theory.theorems import (
    convex,
    convex_almost_sure,
    nonconvex,
    nonconvex_almost_sure,
    nonconvex_step_limit,
    strongly_convex,
)

__all__ = [
    "advice", "almost_supermartingale", "averaged", "averaged_sampled", "basic_inequality",
    "check_schedules", "convex", "convex_almost_sure", "convex_diminishing", "convex_tail_bound",
    "decoupling_identity", "decoupling_inequality", "diminishing_basic_inequality",
    "diminishing_step_bounds", "directional_step", "last_iterate", "nonconvex",
    "nonconvex_almost_sure", "nonconvex_diminishing", "nonconvex_step_limit",
    "nonconvex_tail_bound", "side_by_side", "step_bounds", "strongly_convex",
]  # fmt: skip
