"""How a step moves the parameters, in kernels."""

from typing import Any

import numpy as np
from numba.extending import overload

from heavystep.simulation.addresses import hidden, put, start_of
from heavystep.simulation.forms import goes_by_fours, move
from heavystep.simulation.fours import TINY, WIDTH, flushed_four, in_doubles
from heavystep.simulation.kernel_cache import HIDDEN, INLINE, loop_part
from heavystep.simulation.stretching import NoDiagonal, divided
from heavystep.simulation.sums import four_rows
from heavystep.simulation.terms import adds_up, implement
from heavystep.simulation.widths import Four, One, entry, parts

_OPTIONS: Any = {**INLINE, **HIDDEN}


@loop_part
def move_all(
    terms: Any,
    kinds: Any,
    theta: Any,
    buffer: Any,
    g: Any,
    divisors: Any,
    gamma: Any,
    momentum: Any,
    weight: Any,
) -> None:
    """Move every parameter; ``g`` is left at 0 where gradients are added to it."""
    moved = _move_fours(kinds, theta, buffer, g, gamma, momentum, weight)
    for j in range(moved, theta.shape[0]):
        _move_one(kinds, theta, buffer, g, divisors, gamma, momentum, weight, j)
    if adds_up(terms):
        g[:] = 0.0


def _move_fours(
    kinds: Any, theta: Any, buffer: Any, g: Any, gamma: Any, momentum: Any, weight: Any
) -> Any:
    """Move as many as there are in fours, if they can be moved so; returns how many that is."""
    raise NotImplementedError


@overload(_move_fours, jit_options=_OPTIONS, strict=False)
def _choose(
    kinds: Any, theta: Any, buffer: Any, g: Any, gamma: Any, momentum: Any, weight: Any
) -> Any:
    _, form, diagonal, _ = kinds.types
    plain = diagonal.instance_class is NoDiagonal and in_doubles(theta, buffer, g)
    return _by_fours if plain and goes_by_fours(form.instance_class) else _none


def _none(
    kinds: Any, theta: Any, buffer: Any, g: Any, gamma: Any, momentum: Any, weight: Any
) -> Any:
    return 0


def _by_fours(
    kinds: Any, theta: Any, buffer: Any, g: Any, gamma: Any, momentum: Any, weight: Any
) -> Any:
    whole = hidden(theta.shape[0]) // WIDTH * WIDTH
    point, state, slope = start_of(theta), start_of(buffer), start_of(g)
    j = 0
    while j < whole:
        _move(Four(), kinds, point, state, slope, gamma, momentum, weight, j)
        j = hidden(j + WIDTH)
    return whole


@loop_part
def _move(
    width: Any,
    kinds: Any,
    point: Any,
    state: Any,
    slope: Any,
    gamma: Any,
    momentum: Any,
    weight: Any,
    j: Any,
) -> None:
    past, gradient = entry(width, state, j), entry(width, slope, j)
    motion, kept = move(kinds.form, past, gradient, gamma, momentum, weight)
    put(state, j, flushed(width, kept))
    put(point, j, entry(width, point, j) + flushed(width, motion))


@loop_part
def move_four(
    kinds: Any, theta: Any, buffer: Any, g: Any, gamma: Any, momentum: Any, weight: Any, lane: Any
) -> None:
    """Move the parameters of four seeds; arrays have a row for each seed, of float64."""
    size, (p, q, r, s) = hidden(theta.shape[1]), parts(gamma)
    k, m, n, o = parts(weight)
    (a, b, c, d), (e, f, h, i) = four_rows(theta, lane), four_rows(buffer, lane)
    w, x, y, z = four_rows(g, lane)
    whole = size // WIDTH * WIDTH
    j = 0
    while j < whole:
        _move(Four(), kinds, a, e, w, p, momentum, k, j)
        _move(Four(), kinds, b, f, x, q, momentum, m, j)
        _move(Four(), kinds, c, h, y, r, momentum, n, j)
        _move(Four(), kinds, d, i, z, s, momentum, o, j)
        j = hidden(j + WIDTH)
    j = whole
    while j < size:
        _move(One(), kinds, a, e, w, p, momentum, k, j)
        _move(One(), kinds, b, f, x, q, momentum, m, j)
        _move(One(), kinds, c, h, y, r, momentum, n, j)
        _move(One(), kinds, d, i, z, s, momentum, o, j)
        j = hidden(j + 1)


def flushed(width: Any, value: Any) -> Any:
    """0 in place of a subnormal number: momentum alone would go through all of them, slowly."""
    raise NotImplementedError


def _flushed_one(width: Any, value: Any) -> Any:
    return value if abs(value) > TINY else 0.0


def _flushed_four(width: Any, value: Any) -> Any:
    return flushed_four(value)


implement(One, {flushed: _flushed_one})
implement(Four, {flushed: _flushed_four})


@loop_part
def _move_one(
    kinds: Any,
    theta: Any,
    buffer: Any,
    g: Any,
    divisors: Any,
    gamma: Any,
    momentum: Any,
    weight: Any,
    j: Any,
) -> None:
    number = theta.dtype.type
    tiny, zero = np.finfo(theta.dtype).tiny, number(0.0)
    own = divided(kinds.diagonal, number(gamma), divisors, j)
    motion, kept = move(kinds.form, buffer[j], g[j], own, momentum, number(weight))
    # Momentum alone would go through all subnormal numbers, which are slow.
    buffer[j] = number(kept) if abs(kept) > tiny else zero
    theta[j] += number(motion) if abs(motion) > tiny else zero
