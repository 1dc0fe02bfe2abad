"""The registry: a method is a rule, a momentum form and the options that it fixes, under a name.

Optimizers, simulations, the command line and the documentation find a method here. To add one,
write its rule (one file in :mod:`heavystep.rules`), or take one that is there, and
:func:`register` a row; ``tests/toys/`` shows the whole of it.
"""

from heavystep.methods.method import (
    DIAGONAL,
    ELSEWHERE,
    LR,
    METHODS,
    MOMENTUM,
    Method,
    check_name,
    method_of,
    register,
)
from heavystep.methods.rows import (
    FAMILY,
    HEAVYSTEP,
    SHB,
    SHB_ARMIJO,
    SHB_POLYAK,
    SLS,
    SPS,
    paper_settings,
)

__all__ = [
    "DIAGONAL",
    "ELSEWHERE",
    "FAMILY",
    "HEAVYSTEP",
    "LR",
    "METHODS",
    "MOMENTUM",
    "SHB",
    "SHB_ARMIJO",
    "SHB_POLYAK",
    "SLS",
    "SPS",
    "Method",
    "check_name",
    "method_of",
    "paper_settings",
    "register",
]
