"""The registry: a method is a rule, a momentum form and the options that it fixes, under a name.

Optimizers, simulations, the command line and the documentation find a method here. To add one,
write its rule (see :mod:`heavystep.rules.contract`), or take one that is there, and
:func:`register` a row; ``tests/test_toys.py`` shows the whole of it.
"""

from heavystep.methods.method import (
    METHODS,
    MOMENTUM,
    SCHEDULER,
    Method,
    check_name,
    method_of,
    register,
)
from heavystep.methods.rows import FAMILY, paper_settings

__all__ = [
    "FAMILY", "METHODS", "MOMENTUM", "SCHEDULER", "Method", "check_name", "method_of",
    "paper_settings", "register",
]  # fmt: skip
