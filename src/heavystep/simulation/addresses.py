"""Rows of arrays by their address, in kernels.

Of indices into many arrays, in loops over seeds, the compiler makes as many pointers that it moves
along at every turn: more of them than there are registers, and more work than the numbers. It does
not look behind an address from here, so that a row is one pointer, which is forgotten after use.
Rows are those of contiguous arrays of float64 or int64; nobody checks.
"""

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from heavystep.simulation.fours import ALIGNMENT, BUILDING, FOUR, NUMBERS

WORD = ir.IntType(64)
NUMBER = ir.DoubleType().as_pointer()


def _address(context: Any, builder: Any, made: Any, values: Any) -> Any:
    kind = made.args[0]
    whole = context.make_array(kind)(context, builder, values[0])
    places = [*values[1:], *[WORD(0)] * (kind.ndim - len(values[1:]))]
    item = BUILDING.get_item_pointer(context, builder, kind, whole, places, wraparound=False)
    return _hide(context, builder, made, [builder.ptrtoint(item, WORD)])


def _hide(context: Any, builder: Any, made: Any, values: Any) -> Any:
    # No instruction, but the compiler does not know that what comes out is what went in.
    return builder.asm(ir.FunctionType(WORD, [WORD]), "", "=r,0", values, False)


def _item(builder: Any, values: Any, kind: Any) -> Any:
    start = builder.inttoptr(values[0], NUMBER)
    return builder.bitcast(builder.gep(start, [values[1]]), kind)


def _hidden(typing_context: Any, number: Any) -> Any:
    """A whole number, of which the compiler does not know that it is the same at every step.

    It would write the loop over steps anew for each case of what depends on it, a dozen times.
    """
    return types.intp(types.intp), _hide


def _start_of(typing_context: Any, vector: Any) -> Any:
    """The address of a vector."""
    return types.intp(vector), _address


def _row_of(typing_context: Any, matrix: Any, i: Any) -> Any:
    """The address of row i of a matrix."""
    return types.intp(matrix, types.intp), _address


def _four_from(typing_context: Any, address: Any, j: Any) -> Any:
    """Entries j .. j + 3 of the row at an address."""

    def load(context: Any, builder: Any, made: Any, values: Any) -> Any:
        return builder.load(_item(builder, values, NUMBERS.as_pointer()), align=ALIGNMENT)

    return FOUR(types.intp, types.intp), load


def _number_from(typing_context: Any, address: Any, j: Any) -> Any:
    """Entry j of the row at an address."""

    def load(context: Any, builder: Any, made: Any, values: Any) -> Any:
        return builder.load(_item(builder, values, NUMBER), align=ALIGNMENT)

    return types.float64(types.intp, types.intp), load


def _index_from(typing_context: Any, address: Any, j: Any) -> Any:
    """Entry j of the row of whole numbers at an address."""

    def load(context: Any, builder: Any, made: Any, values: Any) -> Any:
        return builder.load(_item(builder, values, WORD.as_pointer()), align=ALIGNMENT)

    return types.intp(types.intp, types.intp), load


def _put(typing_context: Any, address: Any, j: Any, value: Any) -> Any:
    """Write entry j of the row at an address, or the four from there on."""
    item = (NUMBERS if value is FOUR else ir.DoubleType()).as_pointer()

    def store(context: Any, builder: Any, made: Any, values: Any) -> Any:
        builder.store(values[2], _item(builder, values, item), align=ALIGNMENT)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, value), store


hidden: Any = intrinsic(_hidden)
start_of: Any = intrinsic(_start_of)
row_of: Any = intrinsic(_row_of)
four_from: Any = intrinsic(_four_from)
number_from: Any = intrinsic(_number_from)
index_from: Any = intrinsic(_index_from)
put: Any = intrinsic(_put)
