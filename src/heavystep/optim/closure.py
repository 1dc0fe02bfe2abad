"""The closure contract: what a closure may return and whether it called ``backward()``."""

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

Closure = Callable[[], Any]


class GradientWatch:
    """Tells whether gradients were computed since it was made or last reset.

    A gradient counts as computed if it is another tensor than before or the same one
    changed in place. Tensors are held weakly: the closure's ``zero_grad()`` must be able
    to free the old gradients before its forward needs the memory.
    """

    def __init__(self, params: Sequence[Tensor]) -> None:
        self._params = params
        self._seen: list[tuple[weakref.ref[Tensor], int] | None] = []
        self.reset()

    def reset(self) -> None:
        """Take the present gradients as the ones not computed."""
        self._seen = [
            None if param.grad is None else (weakref.ref(param.grad), param.grad._version)
            for param in self._params
        ]

    def fired(self) -> bool:
        """Whether any parameter has a gradient that was not there before."""
        for param, seen in zip(self._params, self._seen, strict=True):
            grad = param.grad
            if grad is None:
                continue
            if seen is None or seen[0]() is not grad or seen[1] != grad._version:
                return True
        return False


def checked_loss(loss: Any, source: str) -> Any:
    """Refuse what cannot be a loss: ``source`` says where it came from."""
    if isinstance(loss, Tensor):
        if loss.is_complex():
            raise TypeError(f"{source} must be a real number, got dtype {loss.dtype}")
        if loss.numel() != 1:
            raise ValueError(
                f"{source} must be one number, got shape {tuple(loss.shape)}: "
                "reduce it, for example with .mean()"
            )
        return loss
    if isinstance(loss, (bool, str)) or not hasattr(loss, "__float__"):
        hint = ": the closure must end with 'return loss'" if loss is None else ""
        raise TypeError(f"{source} must be a number or a 0-dim tensor, got {loss!r}{hint}")
    return loss


def evaluate_with_gradients(
    closure: Closure, params: Sequence[Tensor], watch: GradientWatch
) -> tuple[Any, bool]:
    """Call ``closure`` and see to it that ``p.grad`` belongs to the loss it returns.

    Returns the loss and whether the closure itself calls ``backward()``. If it does not,
    it is called here on fresh gradients: those that a caller forgot to zero belong to
    another batch.
    """
    with torch.enable_grad():
        loss = checked_loss(closure(), "the closure's return value")
        if not isinstance(loss, Tensor) or not loss.requires_grad:
            return loss, watch.fired()
        if watch.fired():
            return loss.detach(), True
        for param in params:
            param.grad = None
        loss.backward()  # type: ignore[no-untyped-call]
    return loss.detach(), False
