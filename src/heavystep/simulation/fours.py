"""Four neighbours in an array as one number, in kernels: the vectors of the processor, by name.

The compiler makes vectors of loops by itself, but for the few entries of a point it spends more on
asking whether arrays overlap, and on entries that are left over, than on the numbers. Here it has
nothing to ask. Sums, differences, products and quotients of such numbers are those of their
entries, with the same rounding on every machine, so that formulas run on them as they are written.
"""

import operator
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import extending
from numba.core import cgutils, types
from numba.core.errors import NumbaError
from numba.core.typing import templates
from numba.extending import intrinsic, models, register_model

WIDTH = 4
TINY = float(np.finfo(np.float64).tiny)
NUMBERS = ir.VectorType(ir.DoubleType(), WIDTH)
PLACES = ir.VectorType(ir.IntType(32), WIDTH)
TEMPLATES: Any = templates
LOWERING: Any = extending
BUILDING: Any = cgutils
"""Parts of numba that have no types."""
ALIGNMENT = 8
"""Bytes: rows of a matrix begin anywhere."""


class FourType(types.Type):
    """Four float64."""

    def __init__(self) -> None:
        super().__init__(name="Four")


FOUR = FourType()


@register_model(FourType)
class _FourModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, NUMBERS)  # type: ignore[no-untyped-call]


def fits(function: Callable[..., Any], *arguments: Any) -> bool:
    """Whether a function of numbers, with all that it calls, can be compiled for these types."""
    try:
        numba.njit(function).compile(arguments)
    except NumbaError:
        return False
    return True


def in_doubles(*arrays: Any) -> bool:
    """Whether these numba types are contiguous arrays of float64."""
    return all(array.dtype == types.float64 and array.layout == "C" for array in arrays)


def spread(builder: Any, number: Any, kind: Any = NUMBERS) -> Any:
    """A number four times; ``kind`` is what LLVM calls four of them."""
    if number.type == kind:
        return number
    nothing = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(nothing, number, ir.IntType(32)(0))
    return builder.shuffle_vector(first, nothing, ir.Constant(PLACES, [0] * WIDTH))


def _implement(operation: Any, instruction: str, *arguments: tuple[Any, ...]) -> None:
    class Typing(TEMPLATES.ConcreteTemplate):  # type: ignore[misc]
        cases = tuple(TEMPLATES.signature(FOUR, *kinds) for kinds in arguments)

    def lower(context: Any, builder: Any, made: Any, values: Any) -> Any:
        return getattr(builder, instruction)(*(spread(builder, value) for value in values))

    TEMPLATES.infer_global(operation)(Typing)
    for kinds in arguments:
        LOWERING.lower_builtin(operation, *kinds)(lower)


PAIRS = ((FOUR, FOUR), (FOUR, types.float64), (types.float64, FOUR))
_implement(operator.add, "fadd", *PAIRS)
_implement(operator.iadd, "fadd", *PAIRS)
_implement(operator.sub, "fsub", *PAIRS)
_implement(operator.isub, "fsub", *PAIRS)
_implement(operator.mul, "fmul", *PAIRS)
_implement(operator.truediv, "fdiv", *PAIRS)
_implement(operator.neg, "fneg", (FOUR,))


def call_on_fours(builder: Any, name: str, values: Any) -> Any:
    """What a function of LLVM makes of fours."""
    kind, declare = ir.FunctionType(NUMBERS, [NUMBERS]), BUILDING.get_or_insert_function
    return builder.call(declare(builder.module, kind, f"llvm.{name}.v{WIDTH}f64"), values)


def _flush(context: Any, builder: Any, made: Any, values: Any) -> Any:
    tiny, zero = (ir.Constant(NUMBERS, [value] * WIDTH) for value in (TINY, 0.0))
    large = builder.fcmp_ordered(">", call_on_fours(builder, "fabs", values), tiny)
    return builder.select(large, values[0], zero)


def _flushed_four(typing_context: Any, four: Any) -> Any:
    """The same with 0 in place of subnormal numbers."""
    return FOUR(FOUR), _flush


flushed_four: Any = intrinsic(_flushed_four)
