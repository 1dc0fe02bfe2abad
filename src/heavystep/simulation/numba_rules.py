"""The rules inside numba kernels: the same functions, compiled, never copied.

After this import a function under ``numba.njit`` may call anything in
``heavystep.rules`` except :func:`heavystep.rules.kappa`, whose string argument is
resolved before a kernel starts.
"""

from numba.extending import overload, register_jitable

from heavystep import rules
from heavystep.rules.primitives import PYTHON

_COMPILED_RULES = (
    rules.is_finite,
    rules.momentum_factor,
    rules.step_cap,
    rules.remember_step,
    rules.polyak_step,
    rules.batch_is_finite,
    rules.sufficient_loss,
    rules.cannot_succeed,
    rules.skip_impossible,
    rules.armijo_start,
    rules.armijo_advance,
)


# Not strict: numba compares annotations as well as names.
overload(rules.where, strict=False)(lambda condition, if_true, if_false: PYTHON.where)
overload(rules.minimum, strict=False)(lambda a, b: PYTHON.minimum)
overload(rules.maximum, strict=False)(lambda a, b: PYTHON.maximum)

for _rule in _COMPILED_RULES:
    register_jitable(_rule)
