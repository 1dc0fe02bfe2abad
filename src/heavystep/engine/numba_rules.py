"""The rules inside numba kernels: the same functions, compiled, never copied.

After this import a function under ``numba.njit`` may call anything in
``heavystep.rules`` except :func:`heavystep.rules.kappa`, whose string argument is
resolved before a kernel starts.
"""

from collections.abc import Callable
from typing import Any

from numba.extending import overload, register_jitable

from heavystep import rules

_COMPILED_RULES = (
    rules.is_finite,
    rules.momentum_factor,
    rules.step_cap,
    rules.remember_step,
    rules.polyak_step,
    rules.batch_is_finite,
    rules.sufficient_loss,
    rules.cannot_succeed,
    rules.armijo_start,
    rules.armijo_advance,
)


@overload(rules.where)
def _where(condition: Any, if_true: Any, if_false: Any) -> Callable[..., Any]:
    return lambda condition, if_true, if_false: if_true if condition else if_false


@overload(rules.minimum)
def _minimum(a: Any, b: Any) -> Callable[..., Any]:
    return lambda a, b: a if (a < b or a != a) else b


@overload(rules.maximum)
def _maximum(a: Any, b: Any) -> Callable[..., Any]:
    return lambda a, b: a if (a > b or a != a) else b


for _rule in _COMPILED_RULES:
    register_jitable(_rule)
