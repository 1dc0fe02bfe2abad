"""The scalar mathematics of the paper, each formula once, for every back end."""

from heavystep.rules.armijo import (
    ArmijoSearch,
    ArmijoTest,
    armijo_advance,
    armijo_start,
    cannot_succeed,
    skip_impossible,
    sufficient_loss,
)
from heavystep.rules.polyak import batch_is_finite, polyak_step
from heavystep.rules.primitives import Primitives, is_finite, maximum, minimum, register, where
from heavystep.rules.scaling import SCALINGS, Scaling, kappa, momentum_factor
from heavystep.rules.smooth_reset import FIRST_STEP, growth_factor, remember_step, step_cap

__all__ = [
    "FIRST_STEP",
    "SCALINGS",
    "ArmijoSearch",
    "ArmijoTest",
    "Primitives",
    "Scaling",
    "armijo_advance",
    "armijo_start",
    "batch_is_finite",
    "cannot_succeed",
    "growth_factor",
    "is_finite",
    "kappa",
    "maximum",
    "minimum",
    "momentum_factor",
    "polyak_step",
    "register",
    "remember_step",
    "skip_impossible",
    "step_cap",
    "sufficient_loss",
    "where",
]
