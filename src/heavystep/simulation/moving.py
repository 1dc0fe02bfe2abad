"""How a step moves the parameters, in kernels."""

from typing import Any

import numpy as np
from numba.extending import overload

from heavystep.simulation.forms import goes_by_fours, move
from heavystep.simulation.fours import WIDTH, flushed_four, four_at, in_doubles, put_four
from heavystep.simulation.kernel_cache import HIDDEN, INLINE, loop_part
from heavystep.simulation.stretching import NoDiagonal, divided
from heavystep.simulation.terms import adds_up

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
) -> None:
    """Move every parameter; ``g`` is left at 0 where gradients are added to it."""
    moved = _move_fours(kinds, theta, buffer, g, gamma, momentum)
    for j in range(moved, theta.shape[0]):
        _move_one(kinds, theta, buffer, g, divisors, gamma, momentum, j)
    if adds_up(terms):
        g[:] = 0.0


def _move_fours(kinds: Any, theta: Any, buffer: Any, g: Any, gamma: Any, momentum: Any) -> Any:
    """Move as many as there are in fours, if they can be moved so; returns how many that is."""
    raise NotImplementedError


@overload(_move_fours, jit_options=_OPTIONS, strict=False)
def _choose(kinds: Any, theta: Any, buffer: Any, g: Any, gamma: Any, momentum: Any) -> Any:
    _, form, diagonal = kinds.types
    plain = diagonal.instance_class is NoDiagonal and in_doubles(theta, buffer, g)
    return _by_fours if plain and goes_by_fours(form.instance_class) else _none


def _none(kinds: Any, theta: Any, buffer: Any, g: Any, gamma: Any, momentum: Any) -> Any:
    return 0


def _by_fours(kinds: Any, theta: Any, buffer: Any, g: Any, gamma: Any, momentum: Any) -> Any:
    whole = theta.shape[0] // WIDTH * WIDTH
    for j in range(0, whole, WIDTH):
        motion, kept = move(kinds.form, four_at(buffer, j), four_at(g, j), gamma, momentum)
        put_four(buffer, j, flushed_four(kept))
        put_four(theta, j, four_at(theta, j) + flushed_four(motion))
    return whole


@loop_part
def _move_one(
    kinds: Any, theta: Any, buffer: Any, g: Any, divisors: Any, gamma: Any, momentum: Any, j: Any
) -> None:
    number = theta.dtype.type
    tiny, zero = np.finfo(theta.dtype).tiny, number(0.0)
    own = divided(kinds.diagonal, number(gamma), divisors, j)
    motion, kept = move(kinds.form, buffer[j], g[j], own, momentum)
    # Momentum alone would go through all subnormal numbers, which are slow.
    buffer[j] = number(kept) if abs(kept) > tiny else zero
    theta[j] += number(motion) if abs(motion) > tiny else zero
