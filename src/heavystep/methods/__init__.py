"""The registry: a method is a rule, a momentum form and the options that it fixes, under a name.

Optimizers, simulations, sweeps, the command line and the documentation find a method here. To add
one, write its rule (one file in :mod:`heavystep.rules`), or take one that is there, and
:func:`register` a row; ``tests/toys/`` shows the whole of it.
"""

from heavystep.methods.family import FAMILY, OURS
from heavystep.methods.method import BETA2, DIAGONAL_EPS, LR, MOMENTUM, Method
from heavystep.methods.paper import SHB, SHB_ARMIJO, SHB_POLYAK, SLS, SPS, paper_settings
from heavystep.methods.registry import ELSEWHERE, METHODS, check_name, method_of, register

__all__ = [
    "BETA2",
    "DIAGONAL_EPS",
    "ELSEWHERE",
    "FAMILY",
    "LR",
    "METHODS",
    "MOMENTUM",
    "OURS",
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
