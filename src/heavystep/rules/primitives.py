"""The array-library operations that rules need, so that each formula exists once.

A back end adds its own scalars with :func:`register`, or with ``numba.extending.overload``, and
every rule then runs on them. All of them propagate NaN, so that a non-finite loss or gradient shows
up in the step.
"""

from collections.abc import Callable
from typing import Any, NamedTuple


class Primitives(NamedTuple):
    """The operations of one scalar type."""

    where: Callable[[Any, Any, Any], Any]
    minimum: Callable[[Any, Any], Any]
    maximum: Callable[[Any, Any], Any]
    some: Callable[[Any], Any] = lambda condition: condition


def _where(condition: Any, if_true: Any, if_false: Any) -> Any:
    return if_true if condition else if_false


def _minimum(a: Any, b: Any) -> Any:
    return a if (a < b or a != a) else b


def _maximum(a: Any, b: Any) -> Any:
    return a if (a > b or a != a) else b


PYTHON = Primitives(_where, _minimum, _maximum)
"""For Python numbers, and for compiled code that works on numbers."""

PLAIN = (bool, int, float)
_BACK_ENDS: dict[type, Primitives] = {}


def register(scalar_type: type, primitives: Primitives) -> None:
    """Make every rule accept ``scalar_type``, and its subclasses, as a number."""
    _BACK_ENDS[scalar_type] = primitives


def _back_end(*operands: Any) -> Primitives:
    for operand in operands:
        if type(operand) in PLAIN:  # into whose classes a compiler of torch cannot look
            continue
        for scalar_type in type(operand).__mro__:
            if scalar_type in _BACK_ENDS:
                return _BACK_ENDS[scalar_type]
    return PYTHON


# Plain numbers are handled at once below: a step asks dozens of times.


def where(condition: Any, if_true: Any, if_false: Any) -> Any:
    """``if_true`` where ``condition`` holds, else ``if_false``; both are evaluated."""
    if condition is True or condition is False:
        return if_true if condition else if_false
    return _back_end(condition, if_true, if_false).where(condition, if_true, if_false)


def minimum(a: Any, b: Any) -> Any:
    """The smaller of two numbers, NaN if either is NaN."""
    if type(a) is float and type(b) is float:
        return a if (a < b or a != a) else b
    return _back_end(a, b).minimum(a, b)


def maximum(a: Any, b: Any) -> Any:
    """The larger of two numbers, NaN if either is NaN."""
    if type(a) is float and type(b) is float:
        return a if (a > b or a != a) else b
    return _back_end(a, b).maximum(a, b)


def some(condition: Any) -> Any:
    """Whether a condition holds: of several numbers at once, for one of them at least."""
    return _back_end(condition).some(condition)


def is_finite(value: Any) -> Any:
    """Whether ``value`` is neither infinite nor NaN: for those, the difference is NaN."""
    return value - value == 0.0


def batch_is_finite(loss: Any, grad_sqnorm: Any) -> Any:
    """Whether a batch may be used; one with a non-finite loss or gradient is refused.

    >>> batch_is_finite(1.0, 2.0), batch_is_finite(float("nan"), 2.0)
    (True, False)
    """
    return is_finite(loss) & is_finite(grad_sqnorm)
