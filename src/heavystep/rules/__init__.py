"""Step-size rules, one file each: scalar formulas that every back end runs."""

from heavystep.rules.armijo import ARMIJO
from heavystep.rules.contract import REQUIRED, Option, Rule, Search, Seen, Whole
from heavystep.rules.fixed import FIXED
from heavystep.rules.polyak import POLYAK, polyak_step
from heavystep.rules.primitives import (
    Primitives,
    batch_is_finite,
    is_finite,
    maximum,
    minimum,
    register,
    where,
)
from heavystep.rules.scaling import SCALINGS, Scaling, kappa, momentum_factor
from heavystep.rules.smooth_reset import FIRST_STEP, growth_factor, remember_step, step_cap

__all__ = [
    "ARMIJO",
    "FIRST_STEP",
    "FIXED",
    "POLYAK",
    "REQUIRED",
    "SCALINGS",
    "Option",
    "Primitives",
    "Rule",
    "Scaling",
    "Search",
    "Seen",
    "Whole",
    "batch_is_finite",
    "growth_factor",
    "is_finite",
    "kappa",
    "maximum",
    "minimum",
    "momentum_factor",
    "polyak_step",
    "register",
    "remember_step",
    "step_cap",
    "where",
]
