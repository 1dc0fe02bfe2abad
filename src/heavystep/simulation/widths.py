"""One seed or four: what a formula that is written once for both reads and writes, in kernels."""

from typing import Any, NamedTuple

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from heavystep.simulation.addresses import four_from, number_from, put, row_of
from heavystep.simulation.fours import FOUR, NUMBERS, WIDTH
from heavystep.simulation.terms import implement
from heavystep.simulation.truths import as_four

PLACE = ir.IntType(32)
TUPLE: Any = types.UniTuple
"""Numba has no types for it."""


class One(NamedTuple):
    """What stands for single numbers."""


class Four(NamedTuple):
    """What stands for fours."""


def entry(width: Any, address: Any, j: Any) -> Any:
    """Entry j of the row at an address, or the four from there on."""
    raise NotImplementedError


def column(width: Any, array: Any, lane: Any, place: Any) -> Any:
    """A number of the seed ``lane``, or of the four from there on; seeds are columns."""
    raise NotImplementedError


def put_column(width: Any, array: Any, lane: Any, place: Any, value: Any) -> Any:
    """Write that number, or those four."""
    raise NotImplementedError


def _four(typing_context: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Four numbers as a four."""

    def lower(context: Any, builder: Any, made: Any, values: Any) -> Any:
        whole = ir.Constant(NUMBERS, ir.Undefined)
        for place, value in enumerate(values):
            whole = builder.insert_element(whole, value, PLACE(place))
        return whole

    return FOUR(*[types.float64] * WIDTH), lower


def _parts(typing_context: Any, four: Any) -> Any:
    """The four numbers of a four."""

    def lower(context: Any, builder: Any, made: Any, values: Any) -> Any:
        numbers = [builder.extract_element(values[0], PLACE(place)) for place in range(WIDTH)]
        return context.make_tuple(builder, made.return_type, numbers)

    return TUPLE(types.float64, WIDTH)(FOUR), lower


four_of: Any = intrinsic(_four)
parts: Any = intrinsic(_parts)


def _one_column(width: Any, array: Any, lane: Any, place: Any) -> Any:
    return array[place, lane]


def _put_one(width: Any, array: Any, lane: Any, place: Any, value: Any) -> Any:
    array[place, lane] = value
    return 0


def _four_columns(width: Any, array: Any, lane: Any, place: Any) -> Any:
    return four_from(row_of(array, place), lane)


def _put_four(width: Any, array: Any, lane: Any, place: Any, value: Any) -> Any:
    put(row_of(array, place), lane, as_four(value))
    return 0


implement(
    One,
    {
        entry: lambda width, address, j: number_from(address, j),
        column: _one_column,
        put_column: _put_one,
    },
)
implement(
    Four,
    {
        entry: lambda width, address, j: four_from(address, j),
        column: _four_columns,
        put_column: _put_four,
    },
)
