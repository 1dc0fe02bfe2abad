"""Sums over the entries of rows, in kernels, in an order that is the same for one seed and four.

Sixteen sums run side by side, as four fours; they are added up, then entries that make no sixteen
go to four sums and those that make no four to one. What differs between one seed and four is how
the four sums of a seed become one number: those of four seeds do so at once.

A term of a sum is a function ``term(width, data, j, total)``, which adds what belongs to entry j to
the total; it reads rows by :func:`entry`, so that it is written once for numbers and for fours.
"""

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, overload

from heavystep.simulation.addresses import hidden, row_of, start_of
from heavystep.simulation.fours import FOUR, NUMBERS, PLACES, WIDTH, in_doubles, spread
from heavystep.simulation.kernel_cache import HIDDEN, INLINE, loop_part
from heavystep.simulation.terms import dot
from heavystep.simulation.widths import Four, One, entry, four_of, parts

BLOCK = 4 * WIDTH
BYTES = 8
"""Of a number."""
_OPTIONS: Any = {**INLINE, **HIDDEN}
CONTRACT = ("contract",)
"""A product and a sum may be rounded once, where the processor does so."""


def _wide(*kinds: Any) -> Any:
    return FOUR if FOUR in kinds else types.float64


def _added(typing_context: Any, x: Any, y: Any, total: Any) -> Any:
    """``total + x * y``."""
    kind = _wide(x, y, total)

    def lower(context: Any, builder: Any, made: Any, values: Any) -> Any:
        a, b, c = (spread(builder, v) if kind is FOUR else v for v in values)
        return builder.fadd(c, builder.fmul(a, b, flags=CONTRACT), flags=CONTRACT)

    return kind(x, y, total), lower


def _taken(typing_context: Any, x: Any, t: Any, y: Any) -> Any:
    """``x - t * y``, for a term."""
    kind = _wide(x, t, y)

    def lower(context: Any, builder: Any, made: Any, values: Any) -> Any:
        a, b, c = (spread(builder, v) if kind is FOUR else v for v in values)
        return builder.fsub(a, builder.fmul(b, c, flags=CONTRACT), flags=CONTRACT)

    return kind(x, t, y), lower


def _shuffled(builder: Any, x: Any, y: Any, *places: int) -> Any:
    return builder.shuffle_vector(x, y, ir.Constant(PLACES, places))


def _sums(typing_context: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """The sums of four fours: of each, of 0 and 2 and of 1 and 3, then of both."""

    def lower(context: Any, builder: Any, made: Any, values: Any) -> Any:
        halves = []
        for x, y in (values[:2], values[2:]):
            low, high = _shuffled(builder, x, y, 0, 1, 4, 5), _shuffled(builder, x, y, 2, 3, 6, 7)
            halves.append(builder.fadd(low, high))
        even, odd = _shuffled(builder, *halves, 0, 4, 2, 6), _shuffled(builder, *halves, 1, 5, 3, 7)
        mixed = builder.fadd(even, odd)
        return _shuffled(builder, mixed, mixed, 0, 2, 1, 3)

    return FOUR(FOUR, FOUR, FOUR, FOUR), lower


def _sum_of(typing_context: Any, four: Any) -> Any:
    """The sum of one four, in the same order."""

    def lower(context: Any, builder: Any, made: Any, values: Any) -> Any:
        (x,) = values
        pair = builder.fadd(x, _shuffled(builder, x, x, 2, 3, 0, 1))
        first, second = (builder.extract_element(pair, ir.IntType(32)(place)) for place in (0, 1))
        return builder.fadd(first, second)

    return types.float64(FOUR), lower


def _of_number(typing_context: Any, number: Any) -> Any:
    """A number and three zeros."""

    def lower(context: Any, builder: Any, made: Any, values: Any) -> Any:
        nothing = ir.Constant(NUMBERS, [0.0] * WIDTH)
        return builder.insert_element(nothing, values[0], ir.IntType(32)(0))

    return FOUR(types.float64), lower


added: Any = intrinsic(_added)
taken: Any = intrinsic(_taken)
sums_of: Any = intrinsic(_sums)
sum_of: Any = intrinsic(_sum_of)
alone: Any = intrinsic(_of_number)


@loop_part
def blocks(term: Any, data: Any, size: Any) -> Any:
    """Four sums of the entries that make whole blocks."""
    a, b, c, d = alone(0.0), alone(0.0), alone(0.0), alone(0.0)
    j = 0
    while j < size // BLOCK * BLOCK:
        a = term(Four(), data, j, a)
        b = term(Four(), data, j + WIDTH, b)
        c = term(Four(), data, j + 2 * WIDTH, c)
        d = term(Four(), data, j + 3 * WIDTH, d)
        j = hidden(j + BLOCK)
    return (a + b) + (c + d)


@loop_part
def fours(term: Any, data: Any, size: Any, total: Any) -> Any:
    """Four sums of a total and of the entries after the blocks that make whole fours."""
    sums = alone(total)
    j = size // BLOCK * BLOCK
    while j < size // WIDTH * WIDTH:
        sums = term(Four(), data, j, sums)
        j = hidden(j + WIDTH)
    return sums


@loop_part
def rest(term: Any, data: Any, size: Any, total: Any) -> Any:
    """The sum of a total and of the entries that make no four."""
    j = size // WIDTH * WIDTH
    while j < size:
        total = term(One(), data, j, total)
        j = hidden(j + 1)
    return total


@loop_part
def summed(term: Any, data: Any, size: Any) -> Any:
    """The sum of a term over all entries of a seed's rows."""
    size = hidden(size)
    total = sum_of(blocks(term, data, size))
    if size % BLOCK >= WIDTH:
        total = sum_of(fours(term, data, size, total))
    return rest(term, data, size, total)


@loop_part
def all_summed(term: Any, a: Any, b: Any, c: Any, d: Any, size: Any) -> Any:
    """What :func:`summed` gives of four seeds, each with data of its own."""
    size = hidden(size)
    w, x = blocks(term, a, size), blocks(term, b, size)
    y, z = blocks(term, c, size), blocks(term, d, size)
    totals = sums_of(w, x, y, z)
    if size % BLOCK >= WIDTH:
        p, q, r, s = parts(totals)
        w, x, y, z = alone(p), alone(q), alone(r), alone(s)
        j = size // BLOCK * BLOCK
        while j < size // WIDTH * WIDTH:
            w, x = term(Four(), a, j, w), term(Four(), b, j, x)
            y, z = term(Four(), c, j, y), term(Four(), d, j, z)
            j = hidden(j + WIDTH)
        totals = sums_of(w, x, y, z)
    if size % WIDTH > 0:
        p, q, r, s = parts(totals)
        j = size // WIDTH * WIDTH
        while j < size:
            p, q = term(One(), a, j, p), term(One(), b, j, q)
            r, s = term(One(), c, j, r), term(One(), d, j, s)
            j = hidden(j + 1)
        totals = four_of(p, q, r, s)
    return totals


@loop_part
def product(width: Any, data: Any, j: Any, total: Any) -> Any:
    """A term of an inner product; the data are the addresses of two rows."""
    return added(entry(width, data[0], j), entry(width, data[1], j), total)


@loop_part
def product_moved(width: Any, data: Any, j: Any, total: Any) -> Any:
    """A term of an inner product with x - t y; the data are three addresses and t."""
    row, x, y, t = data
    return added(entry(width, row, j), taken(entry(width, x, j), t, entry(width, y, j)), total)


@loop_part
def four_rows(matrix: Any, lane: Any) -> Any:
    """The addresses of four rows, one after the other."""
    first, length = row_of(matrix, lane), BYTES * matrix.shape[1]
    second = hidden(first + length)
    third = hidden(second + length)
    return first, second, third, hidden(third + length)


@loop_part
def squares(matrix: Any, lane: Any) -> Any:
    """The squared lengths of four rows."""
    a, b, c, d = four_rows(matrix, lane)
    return all_summed(product, (a, a), (b, b), (c, c), (d, d), matrix.shape[1])


def square(x: Any) -> Any:
    """The squared length of a vector."""
    raise NotImplementedError


@overload(square, jit_options=_OPTIONS, strict=False)
def _square(x: Any) -> Any:
    return _square_of_doubles if in_doubles(x) else lambda x: dot(x, x)


def _square_of_doubles(x: Any) -> Any:
    start = start_of(x)
    return summed(product, (start, start), x.shape[0])
