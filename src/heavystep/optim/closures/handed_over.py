"""Losses that are handed over before the step that uses them, as gradients are."""

from collections.abc import Iterable

from torch import Tensor


class HandedOver:
    """The sum of the losses whose gradients add up in ``p.grad``.

    Like them it is dropped by ``zero_grad()`` and is no part of a checkpoint.
    """

    def __init__(self) -> None:
        # In a list, because a compiled step cannot set an attribute, and because wrappers of an
        # optimizer may hold the same object.
        self._sum: list[Tensor] = []

    def __bool__(self) -> bool:
        return bool(self._sum)

    @property
    def sum(self) -> Tensor | None:
        """The sum so far, another tensor after each addition; None if there is nothing."""
        return self._sum[0] if self._sum else None

    def add(self, loss: Tensor) -> None:
        """Add a 0-dim tensor, which may be changed in place afterwards."""
        self._sum[:] = [self._sum[0] + loss] if self._sum else [loss.clone()]

    def take(self) -> Tensor:
        """The sum, which is then gone."""
        return self._sum.pop()

    def drop(self) -> None:
        """Forget the losses: their gradients are gone."""
        self._sum.clear()

    def refuse_if_lost(self, params: Iterable[Tensor]) -> None:
        """Refuse to add to losses whose gradients are no longer there."""
        # Of a DTensor FSDP keeps the gradient to itself until micro-batches are complete.
        if self and all(p.grad is None and not hasattr(p, "to_local") for p in params):
            raise ValueError(
                "a loss was handed over before, and its gradients are gone: hand over what "
                "backward() is called on, once, and zero gradients with the optimizer's zero_grad()"
            )
