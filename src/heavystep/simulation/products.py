"""Inner products inside kernels, as :data:`heavystep.rules.PRODUCTS` names them."""

from typing import Any, NamedTuple

from heavystep.rules import PRODUCTS, Rule
from heavystep.simulation.forms import direction
from heavystep.simulation.kernel_cache import inner_reduction
from heavystep.simulation.stretching import NoDiagonal, divided
from heavystep.simulation.terms import Function, function_of, implement


class Gradient(NamedTuple):
    """What stands for g among the arguments of a kernel."""


class Direction(NamedTuple):
    """What stands for the direction of the momentum form."""


class Buffer(NamedTuple):
    """What stands for the buffer of the momentum form."""


class Position(NamedTuple):
    """What stands for theta."""


def entry(vector: Any, kinds: Any, theta: Any, buffer: Any, g: Any, momentum: Any, j: Any) -> Any:
    """Entry j of the vector."""
    raise NotImplementedError


def products_of(rule: Rule) -> Function:
    """A function of what a kernel holds: the products that the rule reads, and 0 for the others.

    The squared norm of the gradient is left out: it is known before.
    """
    held, values = "kinds, theta, buffer, g, divisors, momentum", []
    for name, (left, right, in_metric) in PRODUCTS.items():
        metric = "kinds.diagonal" if in_metric else "NoDiagonal()"
        product = f"inner(of_{left}(), of_{right}(), {metric}, {held})"
        if name != "grad_sqnorm":
            values.append(product if name in rule.reads else "0.0")
    source = f"def look(rule, {held}): return {', '.join(values)}"
    vectors = {f"of_{name}": kind for name, kind in _VECTORS.items()}
    return function_of(source, "look", inner=inner, NoDiagonal=NoDiagonal, **vectors)


@inner_reduction
def inner(
    left: Any, right: Any, diagonal: Any,
    kinds: Any, theta: Any, buffer: Any, g: Any, divisors: Any, momentum: Any,
) -> Any:  # fmt: skip
    """The product <x, D^-1 y>."""
    total = 0.0
    for j in range(g.shape[0]):
        x = entry(left, kinds, theta, buffer, g, momentum, j)
        y = entry(right, kinds, theta, buffer, g, momentum, j)
        total += divided(diagonal, x * y, divisors, j)
    return total


def _gradient(
    vector: Any, kinds: Any, theta: Any, buffer: Any, g: Any, momentum: Any, j: Any
) -> Any:
    return g[j]


def _direction(
    vector: Any, kinds: Any, theta: Any, buffer: Any, g: Any, momentum: Any, j: Any
) -> Any:
    return direction(kinds.form, buffer[j], g[j], momentum)


def _buffer(vector: Any, kinds: Any, theta: Any, buffer: Any, g: Any, momentum: Any, j: Any) -> Any:
    return buffer[j]


def _position(
    vector: Any, kinds: Any, theta: Any, buffer: Any, g: Any, momentum: Any, j: Any
) -> Any:
    return theta[j]


_VECTORS: dict[str, Any] = {
    "gradient": Gradient,
    "direction": Direction,
    "buffer": Buffer,
    "position": Position,
}
implement(Gradient, {entry: _gradient})
implement(Direction, {entry: _direction})
implement(Buffer, {entry: _buffer})
implement(Position, {entry: _position})
