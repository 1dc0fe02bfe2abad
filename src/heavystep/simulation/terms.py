"""What a kernel needs of a problem: losses and gradients at one point, without allocation.

A kernel is compiled once for each kind of data; which functions it calls follows from the type of
the data, ``terms``. They agree with :mod:`heavystep.problems`, from which the data come; a test
compares them.
"""

from collections.abc import Callable
from typing import Any

from numba.extending import overload

from heavystep.simulation.kernel_cache import reduction

Function = Callable[..., Any]


def workspace(terms: Any, theta: Any, size: Any) -> Any:
    """What a run needs beside its point and gradient, for batches of ``size``."""
    raise NotImplementedError


def evaluate(terms: Any, theta: Any, batch: Any, g: Any, work: Any) -> Any:
    """Loss, lower bound and ||grad F||^2 (NaN if costly); the gradient goes into ``g``, now 0."""
    raise NotImplementedError


def prepare_search(terms: Any, theta: Any, g: Any, batch: Any, work: Any) -> Any:
    """What all trials along ``g`` share; comes after :func:`evaluate`."""
    raise NotImplementedError


def trial_loss(terms: Any, theta: Any, g: Any, t: Any, batch: Any, work: Any) -> Any:
    """Loss of the batch at theta - t g."""
    raise NotImplementedError


def objective(terms: Any, point: Any) -> Any:
    """F(point)."""
    raise NotImplementedError


def objective_gap(terms: Any, point: Any) -> Any:
    """F(point) - F*."""
    raise NotImplementedError


def full_sqnorm(terms: Any, point: Any) -> Any:
    """||grad F(point)||^2; NaN where it is not a metric of the problem."""
    raise NotImplementedError


_FUNCTIONS: dict[Function, dict[type, Function]] = {}


def implement(kind: type, functions: dict[Function, Function]) -> None:
    """Say which function a kernel calls in place of each stub, if its first argument is a ``kind``.

    Args:
        kind: a ``NamedTuple``.
        functions: what stands for each stub.
    """
    for stub, function in functions.items():
        if stub not in _FUNCTIONS:
            _FUNCTIONS[stub] = {}
            overload(stub, strict=False)(_chooser(stub))
        _FUNCTIONS[stub][kind] = function


def _chooser(stub: Function) -> Function:
    def choose(first: Any, *others: Any) -> Any:
        return _FUNCTIONS[stub].get(first.instance_class)

    return choose


def no_workspace(terms: Any, theta: Any, size: Any) -> Any:
    """For terms that need nothing."""
    return 0


def no_preparation(terms: Any, theta: Any, g: Any, batch: Any, work: Any) -> Any:
    """For terms whose trials share nothing."""
    return 0


@reduction
def dot(x: Any, y: Any) -> Any:
    """Inner product of two vectors."""
    total = 0.0
    for j in range(x.shape[0]):
        total += x[j] * y[j]
    return total
