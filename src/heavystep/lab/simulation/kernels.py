"""What the loop calls of a problem: losses and gradients at one point, without allocation.

They compute the same as the classes of :mod:`heavystep.problems`, from which the data come; a test
compares them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from heavystep.arrays import Array
from heavystep.lab.simulation.compiling import part, total

Function = Callable[..., Any]


class Kernels(NamedTuple):
    """The functions of one kind of problem; all but the first two are compiled."""

    name: str
    workspace: Callable[[Any, int], Any]
    """Arrays that a run needs besides point and gradient: from the data and the batch size."""
    evaluate: Function
    """(data, theta, batch, g, work): writes the gradient of the batch to ``g``; returns its loss
    and lower bound, its squared length, NaN where it is to be summed up, and ||grad F||^2, NaN
    where that would be costly."""
    prepare: Function
    """(data, theta, way, batch, work): what all trials along ``way`` share, after ``evaluate``."""
    trial: Function
    """(data, theta, way, t, batch, work): the loss of the batch at theta - t way."""
    measure: Function
    """(data, point, work): F(point), less F* where that is known."""
    full_sqnorm: Function
    """(data, point, work): ||grad F(point)||^2; NaN where it is not measured."""
    error: Function
    """(data, theta, g, loss, eps, work): the relative rounding error of the loss, of which ``eps``
    is known. Line searches compare losses with a tolerance of it."""
    depart: Function
    """(data, theta, key, k, size, work): step k from theta is about to be taken; what a run carries
    along may change. ``key`` is that of the seed's stream, ``size`` that of the batch."""


@part
def no_preparation(data: Any, theta: Any, way: Any, batch: Any, work: Any) -> Any:
    """For trials that share nothing."""
    return 0


@part
def plain_error(data: Any, theta: Any, g: Any, loss: Any, eps: Any, work: Any) -> Any:
    """The rounding error of a loss whose gradient is that of the step."""
    return eps


@part
def no_departure(data: Any, theta: Any, key: Any, k: Any, size: Any, work: Any) -> Any:
    """For problems that stay the same from step to step."""
    return 0


@part
def not_measured(data: Any, point: Any, work: Any) -> Any:
    """For what would be costly."""
    return float("nan")


@total
def dot(x: Any, y: Any) -> Any:
    """Inner product of two vectors."""
    result = 0.0
    for j in range(x.shape[0]):
        result += x[j] * y[j]
    return result


@total
def row_dot(rows: Any, i: Any, theta: Any) -> Any:
    """Inner product of row i with theta."""
    result = 0.0
    for j in range(theta.shape[0]):
        result += rows[i, j] * theta[j]
    return result


@total
def row_dot_moved(rows: Any, i: Any, theta: Any, way: Any, t: Any) -> Any:
    """Inner product of row i with theta - t way."""
    result = 0.0
    for j in range(theta.shape[0]):
        result += rows[i, j] * (theta[j] - t * way[j])
    return result


class NoWork(NamedTuple):
    """The workspace of a problem that needs none."""

    nothing: Array
