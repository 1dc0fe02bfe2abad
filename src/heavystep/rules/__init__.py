"""Step-size rules: scalar formulas that every back end runs.

``contract`` says what a rule is, ``primitives`` what its formulas may call. ``heavystep`` is the
default, ``polyak`` and ``armijo`` are the paper's rules, ``scaling`` is what those two share; the
other modules are families of relatives, which the registry of :mod:`heavystep.methods` names.
"""

from heavystep.rules.armijo import ARMIJO
from heavystep.rules.contract import (
    DIRECTION,
    PRODUCTS,
    REQUIRED,
    Integers,
    Option,
    Rule,
    Search,
    Seen,
)
from heavystep.rules.fixed import FIXED
from heavystep.rules.polyak import POLYAK, polyak_step
from heavystep.rules.primitives import (
    Primitives,
    batch_is_finite,
    is_finite,
    maximum,
    minimum,
    ratio,
    register_scalars,
    where,
)  # fmt: skip
from heavystep.rules.scaling import SCALINGS, kappa, momentum_factor, remember_step

__all__ = [
    "ARMIJO", "DIRECTION", "FIXED", "POLYAK", "PRODUCTS", "REQUIRED", "SCALINGS", "Integers",
    "Option", "Primitives", "Rule", "Search", "Seen", "batch_is_finite", "is_finite", "kappa",
    "maximum", "minimum", "momentum_factor", "polyak_step", "ratio", "register_scalars",
    "remember_step", "where",
]  # fmt: skip
