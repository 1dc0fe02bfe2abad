"""What a kernel needs of a problem: losses and gradients at one point, without allocation.

A kernel is compiled once for each kind of data, ``terms``, whose type decides which functions it
calls. They compute the same as the classes of :mod:`heavystep.problems`, from which the data come;
a test compares them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from numba.extending import overload

from heavystep.simulation.kernel_cache import (
    HIDDEN,
    INLINE,
    UNCOUNTED,
    inner_kernel,
    inner_reduction,
)

Function = Callable[..., Any]


def workspace(terms: Any, theta: Any, size: Any) -> Any:
    """Arrays that runs need besides point and gradient, for batches of ``size``.

    ``theta`` has the point of each run. A run has its part of the arrays by
    :func:`heavystep.simulation.lanes.lane_of`.
    """
    raise NotImplementedError


def evaluate(terms: Any, theta: Any, batch: Any, g: Any, work: Any) -> Any:
    """Loss and lower bound of the batch, and ||grad F||^2, NaN where it would be costly.

    The gradient of the batch is written into ``g``, or added to it if it :func:`adds_up`.
    """
    raise NotImplementedError


def adds_up(terms: Any) -> Any:
    """Whether :func:`evaluate` adds to a gradient that is 0 before: that of sparse rows."""
    raise NotImplementedError


def loss_error(terms: Any, theta: Any, g: Any, loss: Any, eps: Any, work: Any) -> Any:
    """Relative rounding error of the loss, of which ``eps`` is known; :func:`evaluate` came before.

    Line searches compare losses with a tolerance of it.
    """
    raise NotImplementedError


def prepare_search(terms: Any, theta: Any, g: Any, batch: Any, work: Any) -> Any:
    """Compute what all trials along ``g`` share; :func:`evaluate` was called before."""
    raise NotImplementedError


def trial_loss(terms: Any, theta: Any, g: Any, t: Any, batch: Any, work: Any) -> Any:
    """Loss of the batch at theta - t g."""
    raise NotImplementedError


def evaluate_all(terms: Any, theta: Any, batch: Any, g: Any, work: Any, lane: Any) -> Any:
    """What :func:`evaluate` does, of four seeds at once, ``lane`` and those after it.

    Arrays have a row for each seed; ``work`` is the workspace of all of them. The problem may not
    be able to do so (:func:`implements`).
    """
    raise NotImplementedError


def trial_losses(terms: Any, theta: Any, g: Any, t: Any, batch: Any, work: Any, lane: Any) -> Any:
    """What :func:`trial_loss` is, of four seeds at once."""
    raise NotImplementedError


def depart(terms: Any, theta: Any, key: Any, k: Any, size: Any, work: Any) -> Any:
    """Step k from theta is accepted and about to be taken: what a run carries along may change.

    ``key`` is that of the seed's stream, ``size`` that of the batch.
    """
    raise NotImplementedError


def objective(terms: Any, point: Any, work: Any) -> Any:
    """F(point); ``work`` is a workspace for batches of any size."""
    raise NotImplementedError


def objectives(terms: Any, theta: Any, work: Any, out: Any) -> Any:
    """Write F at the point of each seed, with the workspace of all of them."""
    raise NotImplementedError


def objective_gap(terms: Any, point: Any, work: Any) -> Any:
    """F(point) - F*."""
    raise NotImplementedError


def full_sqnorm(terms: Any, point: Any, work: Any) -> Any:
    """||grad F(point)||^2; NaN for problems of which it is not measured."""
    raise NotImplementedError


ALLOCATING: set[Function] = {workspace}
"""What makes arrays, once in a call; all others belong to the steps."""
RARE: set[Function] = {depart, objective, objectives, objective_gap, full_sqnorm}
"""What few steps need: it is called, and not made a part of the loop."""
_FUNCTIONS: dict[Function, dict[type, Function]] = {}


def implement(kind: type, functions: dict[Function, Function]) -> None:
    """Say which functions a kernel calls in place of stubs whose first argument is a ``kind``.

    Args:
        kind: a ``NamedTuple``.
        functions: for each stub the function that is called.
    """
    for stub, function in functions.items():
        if stub not in _FUNCTIONS:
            _FUNCTIONS[stub] = {}
            overload(stub, jit_options=_options(stub), strict=False)(_chooser(stub))
        _FUNCTIONS[stub][kind] = function


def implements(kind: type, stub: Function) -> bool:
    """Whether a kernel has something to call in place of a stub whose first argument is a kind."""
    return kind in _FUNCTIONS.get(stub, ())


def _options(stub: Function) -> Any:
    if stub in ALLOCATING:
        return {}
    return {**(UNCOUNTED if stub in RARE else INLINE), **HIDDEN}


def _chooser(stub: Function) -> Function:
    def choose(first: Any, *others: Any) -> Any:
        return _FUNCTIONS[stub].get(first.instance_class)

    return choose


def function_of(source: str, name: str, **names: Any) -> Function:
    """A function from its text, where numba has no loop over what is known beforehand."""
    exec(source, names)
    function: Function = names[name]
    return function


class NoWork(NamedTuple):
    """The workspace of terms that need none."""


def no_workspace(terms: Any, theta: Any, size: Any) -> Any:
    """The workspace of terms that need none."""
    return NoWork()


def from_scratch(terms: Any) -> Any:
    """Gradients are written, whatever was there."""
    return False


def plain_error(terms: Any, theta: Any, g: Any, loss: Any, eps: Any, work: Any) -> Any:
    """The rounding error of a loss whose gradient is that of the step."""
    return eps


def no_preparation(terms: Any, theta: Any, g: Any, batch: Any, work: Any) -> Any:
    """The preparation of terms whose trials share nothing."""
    return 0


def no_departure(terms: Any, theta: Any, key: Any, k: Any, size: Any, work: Any) -> Any:
    """The departure of terms that stay the same from step to step."""
    return 0


@inner_kernel
def shared(total: Any, size: Any) -> Any:
    """What each term of a batch has of a total; a division takes long, and one term has it all."""
    return total if size == 1 else total / float(size)


@inner_reduction
def dot(x: Any, y: Any) -> Any:
    """Inner product of two vectors."""
    total = 0.0
    for j in range(x.shape[0]):
        total += x[j] * y[j]
    return total
