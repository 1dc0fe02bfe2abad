"""Diagonals inside kernels; see :mod:`heavystep.simulation.choice` for rules."""

from functools import cache
from typing import Any, NamedTuple

from heavystep.momentum import Diagonal
from heavystep.rules import is_finite
from heavystep.simulation.kernel_cache import inner_reduction
from heavystep.simulation.kernel_types import kernel_type
from heavystep.simulation.numba_rules import diagonal_functions
from heavystep.simulation.terms import implement


class NoDiagonal(NamedTuple):
    """What stands for the absence of a diagonal among the arguments of a kernel."""


def stretches(diagonal: Any) -> Any:
    """Whether there is a diagonal."""
    raise NotImplementedError


def stretch(diagonal: Any, g: Any, squares: Any, weight: Any, numbers: Any, divisors: Any) -> Any:
    """Take a gradient into the averages, and write the diagonal to ``divisors``.

    ``numbers`` are beta_2 and eps.
    """
    raise NotImplementedError


def divided(diagonal: Any, value: Any, divisors: Any, j: Any) -> Any:
    """What belongs to parameter j, divided by its entry of the diagonal."""
    raise NotImplementedError


def square_of(diagonal: Any, g: Any, square: Any, divisors: Any) -> Any:
    """The square g' D^-1 g; ``square`` is ||g||^2."""
    raise NotImplementedError


@cache
def kernel_diagonal(diagonal: Diagonal | None) -> Any:
    """What stands for the diagonal among the arguments of a kernel."""
    if diagonal is None:
        return NoDiagonal()
    average, weigh, divisor = diagonal.average, diagonal.weigh, diagonal.divisor
    functions = diagonal_functions(diagonal)
    roles = tuple(function.__qualname__ for function in (average, weigh, divisor))
    kind = kernel_type("Diagonal", functions, (diagonal.name, roles))

    def _stretch(
        diagonal: Any, g: Any, squares: Any, weight: Any, numbers: Any, divisors: Any
    ) -> Any:
        beta2, eps = numbers[0], numbers[1]
        weight[0] = weigh(weight[0], beta2)
        for j in range(g.shape[0]):
            squares[j] = average(squares[j], g[j], beta2)
            divisors[j] = divisor(squares[j], weight[0], eps)
        return 0

    implement(
        kind,
        {stretches: _yes, stretch: _stretch, divided: _divided, square_of: _divided_square},
    )
    return kind()


def _yes(diagonal: Any) -> Any:
    return True


def _no(diagonal: Any) -> Any:
    return False


def _divided(diagonal: Any, value: Any, divisors: Any, j: Any) -> Any:
    return value / divisors[j]


def _as_it_is(diagonal: Any, value: Any, divisors: Any, j: Any) -> Any:
    return value


def _divided_square(diagonal: Any, g: Any, square: Any, divisors: Any) -> Any:
    # A gradient whose square overflows would vanish when it is divided by the diagonal.
    return divided_dot(g, divisors) if is_finite(square) else square


def _square(diagonal: Any, g: Any, square: Any, divisors: Any) -> Any:
    return square


def _no_stretch(
    diagonal: Any, g: Any, squares: Any, weight: Any, numbers: Any, divisors: Any
) -> Any:
    return 0


@inner_reduction
def divided_dot(g: Any, divisors: Any) -> Any:
    """The sum of g_j^2 / D_j."""
    total = 0.0
    for j in range(g.shape[0]):
        total += g[j] * g[j] / divisors[j]
    return total


implement(
    NoDiagonal,
    {stretches: _no, stretch: _no_stretch, divided: _as_it_is, square_of: _square},
)
