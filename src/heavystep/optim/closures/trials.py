"""The loss at trial points: parameters are moved, the closure is called, all is put back."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
from torch import Tensor

from heavystep.optim.closures.closure import Closure, checked_loss
from heavystep.optim.closures.replay import Replay, put_back
from heavystep.optim.committing import held_back
from heavystep.optim.ranks import forget_gathered

Buffers = Iterable[Tensor] | Callable[[], Iterable[Tensor]]
"""Buffers that a forward pass changes, or a function that gives them."""
Searched = TypeVar("Searched")


class ParameterCopies:
    """Memory for one copy of each parameter, kept from step to step."""

    def __init__(self) -> None:
        self._copies: list[Tensor] = []

    def of(self, params: list[Tensor]) -> list[Tensor]:
        """Copies of the parameters as they are now."""
        fitting = len(self._copies) == len(params) and all(map(_alike, self._copies, params))
        if not fitting:
            self._copies = [torch.empty_like(param) for param in params]
        put_back(self._copies, params)
        return self._copies


def _alike(copy: Tensor, param: Tensor) -> bool:
    """Whether one tensor can hold the other, in the same order in memory."""
    return (copy.device, copy.dtype, copy.shape, copy.stride()) == (
        param.device, param.dtype, param.shape, param.stride()
    )  # fmt: skip


class TrialPoints:
    """The closure's loss along the gradient, theta_k - t g_k, for one batch.

    Make it before the first evaluation and call :meth:`first_evaluation_done` right after.
    A search :meth:`along` a gradient may call :meth:`loss_at`; at its end, whatever happens,
    parameters, gradients, random streams and buffers are as the first evaluation left them.
    """

    def __init__(
        self,
        closure: Closure,
        owned: list[Tensor],
        buffers: Iterable[Tensor],
        copies: ParameterCopies,
    ) -> None:
        self._closure = closure
        self._owned = owned
        self._copies = copies
        self._replay = Replay(owned[0].device if owned else torch.device("cpu"), buffers)
        self._calls_backward = False
        self._moved = False
        self._params: list[Tensor] = []
        self._grads: list[Tensor] = []
        self._origin: list[Tensor] = []
        self._gradients: list[Tensor | None] = []

    def first_evaluation_done(self, calls_backward: bool) -> None:
        """Remember what one forward and backward leave, and how the closure works."""
        self._calls_backward = calls_backward
        self._replay.first_done()

    def along(
        self, params: list[Tensor], grads: list[Tensor], search: Callable[[], Searched]
    ) -> Searched:
        """What a search returns, at whose trials these parameters move along this gradient."""
        self._params, self._grads = params, grads
        try:
            try:
                self._begin()
                return search()
            finally:
                self._put_back()
        except KeyboardInterrupt:
            self._put_back()  # it may have arrived before the first line that holds it back
            raise

    def forget_batch(self) -> None:
        """Put the buffers back to before the batch: it was refused."""
        self._replay.forget_buffers()

    def _begin(self) -> None:
        with held_back():
            self._origin = self._copies.of(self._params)
            self._gradients = [param.grad for param in self._owned]
            # A closure that calls backward() must not add to the gradient at theta_k.
            for param in self._owned:
                param.grad = None

    def loss_at(self, trial: float, objective: Callable[[Any], Tensor]) -> Tensor:
        """The objective of the closure's loss at theta_k - trial * g_k, taken there."""
        if self._moved:  # from the copy, so that nothing drifts from trial to trial
            torch._foreach_copy_(self._params, self._origin)
        self._moved = True
        torch._foreach_add_(self._params, self._grads, alpha=-trial)
        self._replay.rewind()
        # A cast cached by an outer autocast is one of other parameter values.
        torch.clear_autocast_cache()
        try:
            with torch.set_grad_enabled(self._calls_backward):
                loss = checked_loss(self._closure(), "the closure's return value")
        finally:
            forget_gathered(self._owned)
        return objective(loss)

    def _put_back(self) -> None:
        with held_back():
            if self._moved:
                torch._foreach_copy_(self._params, self._origin)
            # An interrupted beginning has taken none of them away.
            for param, grad in zip(self._owned, self._gradients, strict=False):
                param.grad = grad
            self._replay.finish()


class _Listed:
    """Buffers given as a list, behind the same call as ``model.buffers``."""

    def __init__(self, buffers: Iterable[Tensor]) -> None:
        self.buffers = list(buffers)

    def __call__(self) -> Iterable[Tensor]:
        return self.buffers


def checked_buffers(buffers: Buffers | None) -> Callable[[], Iterable[Tensor]]:
    """What gives the buffers anew at each step, or a refusal of what are none."""
    if callable(buffers) and not isinstance(buffers, torch.nn.Module):
        return buffers
    if isinstance(buffers, (torch.nn.Module, Tensor)) or not isinstance(buffers, Iterable | None):
        raise TypeError(
            f"buffers must be an iterable of tensors or a function that returns one, got "
            f"{type(buffers).__name__}: pass model.buffers()"
        )
    listed = _Listed(buffers or ())
    for buffer in listed():
        if not isinstance(buffer, Tensor):
            raise TypeError(f"buffers must hold tensors, got {buffer!r}: pass model.buffers()")
    return listed
