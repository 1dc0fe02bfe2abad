"""Momentum forms inside kernels; see :mod:`heavystep.simulation.choice` for rules."""

from functools import cache
from typing import Any

from numba.core import types

from heavystep.momentum import Form
from heavystep.simulation.fours import FOUR, fits
from heavystep.simulation.kernel_types import kernel_type
from heavystep.simulation.numba_rules import form_functions
from heavystep.simulation.terms import Function, implement

_MOVES: dict[type, Function] = {}


def move(form: Any, buffer: Any, gradient: Any, step: Any, momentum: Any, weight: Any) -> Any:
    """Motion and new buffer of one parameter."""
    raise NotImplementedError


def direction(form: Any, buffer: Any, gradient: Any, momentum: Any) -> Any:
    """What the step size multiplies, for one parameter."""
    raise NotImplementedError


@cache
def goes_by_fours(kind: type) -> bool:
    """Whether the form of this type can move four parameters at once: if it is arithmetic only.

    Asked when a kernel is compiled, and not when it is loaded: it takes a moment to see.
    """
    return fits(_MOVES[kind], FOUR, FOUR, types.float64, types.float64, types.float64)


@cache
def kernel_form(form: Form) -> Any:
    """What stands for the momentum form among the arguments of a kernel."""
    moved, along = form.move, form.direction
    functions = form_functions(form)
    kind = kernel_type("Form", functions, (form.name, moved.__qualname__, along.__qualname__))

    def _move(form: Any, buffer: Any, gradient: Any, step: Any, momentum: Any, weight: Any) -> Any:
        return moved(buffer, gradient, step, momentum, weight)

    def _direction(form: Any, buffer: Any, gradient: Any, momentum: Any) -> Any:
        return along(buffer, gradient, momentum)

    implement(kind, {move: _move, direction: _direction})
    _MOVES[kind] = moved
    return kind()
