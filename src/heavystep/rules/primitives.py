"""The operations that formulas need, on numbers and on a library's own scalars.

So each formula exists once. :func:`register_scalars` adds the scalars of an array library, and
``numba.extending.overload`` compiled code. All of them propagate NaN, so that a non-finite loss or
gradient shows up in the step.
"""

from collections.abc import Callable
from typing import Any, NamedTuple


class Primitives(NamedTuple):
    """The operations of one scalar type."""

    where: Callable[[Any, Any, Any], Any]
    minimum: Callable[[Any, Any], Any]
    maximum: Callable[[Any, Any], Any]
    ratio: Callable[[Any, Any], Any]


PYTHON = Primitives(
    lambda condition, if_true, if_false: if_true if condition else if_false,
    lambda a, b: a if (a < b or a != a) else b,
    lambda a, b: a if (a > b or a != a) else b,
    lambda a, b: 0.0 if b == 0.0 else a / b,
)
"""For Python numbers, and for compiled code that works on numbers."""
_BACK_ENDS: dict[type, Primitives] = {}


def register_scalars(scalar_type: type, primitives: Primitives) -> None:
    """Make every rule accept ``scalar_type``, and its subclasses, as a number."""
    _BACK_ENDS[scalar_type] = primitives


def _back_end(*operands: Any) -> Primitives:
    for operand in operands:
        if type(operand) in (bool, int, float):  # into whose classes a compiler of torch cannot see
            continue
        for scalar_type in type(operand).__mro__:
            if scalar_type in _BACK_ENDS:
                return _BACK_ENDS[scalar_type]
    return PYTHON


# Plain numbers are handled at once below: a step asks dozens of times.


def where(condition: Any, if_true: Any, if_false: Any) -> Any:
    """``if_true`` where ``condition`` holds, else ``if_false``: two numbers or two tuples of them.

    Both are evaluated.
    """
    if condition is True or condition is False:
        return if_true if condition else if_false
    if isinstance(if_true, tuple):
        return tuple([where(condition, *pair) for pair in zip(if_true, if_false, strict=True)])
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


def ratio(a: Any, b: Any) -> Any:
    """A / b, and 0 where b is 0.

    >>> ratio(3.0, 2.0), ratio(3.0, 0.0)
    (1.5, 0.0)
    """
    if type(a) is float and type(b) is float:
        return 0.0 if b == 0.0 else a / b
    return _back_end(a, b).ratio(a, b)


def polyak_ratio(gap: Any, sqnorm: Any, factor: Any) -> Any:
    """The Polyak ratio, factor max(gap, 0) / ||g||^2; 0 where the gradient vanished."""
    return ratio(factor * maximum(gap, 0.0), sqnorm)


def is_finite(value: Any) -> Any:
    """True if ``value`` is neither infinite nor NaN: for those, the difference is NaN."""
    return value - value == 0.0


def batch_is_finite(loss: Any, grad_sqnorm: Any) -> Any:
    """True if a batch may be used; one with a non-finite loss or gradient is refused.

    >>> batch_is_finite(1.0, 2.0), batch_is_finite(float("nan"), 2.0)
    (True, False)
    """
    return is_finite(loss) & is_finite(grad_sqnorm)
