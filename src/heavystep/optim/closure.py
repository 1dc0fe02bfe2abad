"""Closures: what they return, and the loss at trial points as if there had been one evaluation.

A closure may call ``backward()`` or leave it to the optimizer. A line search calls it again at
trial points; dropout then draws the mask of the first evaluation, and BatchNorm does not see the
batch twice. Where there is no closure, losses are handed over before the step.
"""

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from heavystep.optim.diagnostics import warn_caller
from heavystep.optim.measure import checked_loss, forget_gathered, indices_by_dtype
from heavystep.optim.options import local

Closure = Callable[[], Any]
Buffers = Iterable[Tensor] | Callable[[], Iterable[Tensor]]
"""Buffers that a forward pass changes, or a function that gives them."""
EARLIER_PARTS = (
    "the closure added to gradients that were there, and its loss does not belong to all of them: "
    "call zero_grad() in it, or hand_over() every loss (in Lightning: callbacks=[HandOverLoss()] "
    "of heavystep.integrations.lightning)"
)


class GradientWatch:
    """Tells whether gradients were computed since it was made.

    A gradient that is another tensor than before was computed. One that was changed in place
    may have been accumulated or merely zeroed, so one parameter is asked by a hook: if its
    gradient changed although nothing was accumulated into it, in-place changes are zeroing.
    Tensors are held weakly: ``zero_grad()`` in a closure must be able to free the old
    gradients before the forward needs their memory.
    """

    def __init__(self, params: Sequence[Tensor], weigh: bool = False) -> None:
        self._params = params
        self._seen = [
            None if param.grad is None else (weakref.ref(param.grad), param.grad._version)
            for param in params
        ]
        self._accumulated = False
        self.added = False
        """True if gradients were added to older ones, as far as one can tell."""
        asked = (i for i, p in enumerate(params) if p.grad is not None and p.requires_grad)
        self._witness = next((i for i in asked if params[i].is_leaf), None)
        self.leftover: Tensor | None = None
        """The sum of the absolute values of a gradient that was there; None unless ``weigh``."""
        self._handle: Any = None
        if self._witness is not None:
            witness: Any = params[self._witness]
            self._handle = witness.register_post_accumulate_grad_hook(self._note)
            if weigh:
                self.leftover = local(witness.grad.detach()).abs().sum()

    def __enter__(self) -> "GradientWatch":
        return self

    def __exit__(self, *exception: object) -> None:
        if self._handle is not None:
            self._handle.remove()

    def _note(self, param: Tensor) -> None:
        if not self._accumulated and self._witness is not None:
            # Zeroing in place would have been a second change; clipping comes later.
            self.added = self._changes(self._witness) == 1
        self._accumulated = True

    def _changes(self, index: int) -> int | None:
        """In-place changes of one gradient; None if it is another tensor or there is none."""
        grad, seen = self._params[index].grad, self._seen[index]
        if grad is None or seen is None or seen[0]() is not grad:
            return None
        return grad._version - seen[1]

    def fired(self) -> bool:
        """True if any parameter has a gradient that was not there before."""
        if self._accumulated:
            return True
        zeroed = (self._changes(self._witness) or 0) if self._witness is not None else 0
        changed = (self._changes(i) for i, p in enumerate(self._params) if p.grad is not None)
        return any(changes is None or changes > zeroed for changes in changed)


def evaluate_with_gradients(
    closure: Closure, params: Sequence[Tensor], handed_over: list[Tensor],
    searches: bool = False, wanted: bool = True, tell: Callable[[str], None] = warn_caller,
) -> tuple[Any, bool]:  # fmt: skip
    """Call ``closure``, and see to it that ``p.grad`` belongs to the loss.

    If it calls ``backward()``, losses that were handed over in it or before, for the gradients that
    it adds to, count instead of the one that it returns, and are used up. If it does not,
    ``backward()`` is called here on fresh gradients: those that a caller forgot to zero belong to
    another batch. A method that ``searches`` refuses gradients that were there before, of which
    others only ``tell``; a loss that is not ``wanted`` need not be returned.

    Returns:
        The loss whose gradients are in ``p.grad``, detached; whether the closure called backward.
    """
    # An autocast around the training loop keeps casts of the parameters before the last step.
    torch.clear_autocast_cache()
    before = handed_over[:]
    with torch.enable_grad(), GradientWatch(params, searches) as watch:
        returned = closure()
        fired = watch.fired()
        leaves_backward = isinstance(returned, Tensor) and returned.requires_grad and not fired
        if handed_over and not leaves_backward:
            if fired and before and handed_over[0] is before[0]:
                raise ValueError(
                    "a loss was handed over before, but not the one of which the closure took the "
                    "gradient: call zero_grad() of the optimizer in it, or hand_over(loss)"
                )
            return handed_over.pop(), fired
        if returned is None and not wanted:
            return None, fired
        loss = checked_loss(returned, "the closure's return value")
        if leaves_backward:
            handed_over.clear()
            for param in params:
                param.grad = None
            try:
                loss.backward()
            except RuntimeError as error:
                if "backward through the graph a second time" not in str(error):
                    raise
                raise RuntimeError(
                    "the closure returned a loss of which backward() was called before: call "
                    "step(loss=loss) after loss.backward(), or let the closure compute the loss"
                ) from None
    if wanted and watch.added and not leaves_backward:
        if watch.leftover is None:
            tell(EARLIER_PARTS)
        elif watch.leftover.item() != 0.0:
            raise ValueError(EARLIER_PARTS)
    return loss.detach() if isinstance(loss, Tensor) else loss, fired


class Replay:
    """State that a forward changes: random streams of the CPU and of accelerators, and buffers."""

    def __init__(self, device: torch.device, buffers: Iterable[Tensor] = ()) -> None:
        self.buffers = list(buffers)
        # All devices of the kind: a forward may use others than the parameters'.
        self._module: Any = torch.get_device_module(device)
        count = 0 if device.type == "cpu" else self._module.device_count()
        self._devices = [torch.device(device.type, index) for index in range(count)]

    def state(self) -> tuple[list[Tensor], list[Tensor]]:
        """The present state of random streams and buffers."""
        others = [self._module.get_rng_state(device) for device in self._devices]
        buffers = [buffer.detach().clone() for buffer in self.buffers]
        return [torch.get_rng_state(), *others], buffers

    def restore(self, state: tuple[list[Tensor], list[Tensor]]) -> None:
        """Restore streams and buffers."""
        (cpu, *others), buffers = state
        torch.set_rng_state(cpu)
        for device, other in zip(self._devices, others, strict=True):
            self._module.set_rng_state(other, device)
        put_back(self.buffers, buffers)


def put_back(tensors: list[Tensor], values: list[Tensor]) -> None:
    """Give tensors, of which there may be none, their former values."""
    # A list of mixed formats, as BatchNorm's buffers are, would be copied one by one.
    for indices in indices_by_dtype(tensors):
        torch._foreach_copy_([tensors[i] for i in indices], [values[i] for i in indices])


def copy_to(kept: list[Tensor], tensors: list[Tensor]) -> list[Tensor]:
    """Copies of tensors, in memory that is kept from step to step."""

    def places(some: list[Tensor]) -> list[Any]:
        return [(each.device, each.dtype, each.shape, each.stride()) for each in some]

    if places(kept) != places(tensors):
        kept[:] = map(torch.empty_like, tensors)
    put_back(kept, tensors)
    return kept


class TrialPoints:
    """The closure's loss along the gradient, theta_k - t g_k, for one batch.

    Make it before the first evaluation and call :meth:`first_evaluation_done` right after. Within
    the ``with`` block of :meth:`along` one may call :meth:`loss_at`; at its end, whatever happens,
    parameters, gradients, random streams and buffers are as the first evaluation left them.
    """

    def __init__(
        self, closure: Closure, owned: list[Tensor], buffers: Iterable[Tensor], kept: list[Tensor]
    ) -> None:
        self._closure, self._owned, self._kept = closure, owned, kept
        self._replay = Replay(owned[0].device if owned else torch.device("cpu"), buffers)
        self._before = self._after = self._replay.state()
        self._calls_backward = False

    def first_evaluation_done(self, calls_backward: bool) -> None:
        """Remember what one forward and backward leave, and how the closure works."""
        self._calls_backward = calls_backward
        self._after = self._replay.state()

    def forget_buffers(self) -> None:
        """Buffers back to before the first evaluation; random streams stay."""
        put_back(self._replay.buffers, self._before[1])

    @contextmanager
    def along(self, params: list[Tensor], ways: list[Tensor]) -> Iterator[None]:
        """Let the parameters move along these ways in the block that follows."""
        self._params, self._ways, self._moved = params, ways, False
        self._origin = copy_to(self._kept, params)
        gradients = [param.grad for param in self._owned]
        # A closure that calls backward() must not add to the gradient at theta_k.
        for param in self._owned:
            param.grad = None
        try:
            yield
        finally:
            if self._moved:
                torch._foreach_copy_(params, self._origin)
            for param, grad in zip(self._owned, gradients, strict=True):
                param.grad = grad
            self._replay.restore(self._after)

    def loss_at(self, trial: float) -> Any:
        """The closure's loss at theta_k - trial * d, at which the parameters stay."""
        if self._moved:  # from the copy, so that nothing drifts from trial to trial
            torch._foreach_copy_(self._params, self._origin)
        self._moved = True
        torch._foreach_add_(self._params, self._ways, alpha=-trial)
        self._replay.restore(self._before)
        # A cast cached by an outer autocast is one of other parameter values.
        torch.clear_autocast_cache()
        try:
            with torch.set_grad_enabled(self._calls_backward):
                return checked_loss(self._closure(), "the closure's return value")
        finally:
            forget_gathered(self._owned)


def checked_buffers(buffers: Buffers | None) -> Callable[[], Iterable[Tensor]]:
    """A function that lists the buffers at each step; TypeError for anything but buffers."""
    if callable(buffers) and not isinstance(buffers, torch.nn.Module):
        return buffers
    if isinstance(buffers, (torch.nn.Module, Tensor)) or not isinstance(buffers, Iterable | None):
        raise TypeError(
            f"buffers must be an iterable of tensors or a function that returns one, got "
            f"{type(buffers).__name__}: pass model.buffers()"
        )
    listed = list(buffers or ())
    for buffer in listed:
        if not isinstance(buffer, Tensor):
            raise TypeError(f"buffers must hold tensors, got {buffer!r}: pass model.buffers()")
    return partial(list, listed)  # behind the same call as model.buffers
