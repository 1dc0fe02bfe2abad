"""A torch optimizer to which losses are handed over as gradients are."""

from typing import Any

import torch
from torch.optim.optimizer import ParamsT

from heavystep.optim.closures.closure import checked_loss
from heavystep.optim.closures.handed_over import HandedOver
from heavystep.optim.options import CheckedGroups, Group
from heavystep.optim.ranks import whole
from heavystep.optim.torch_primitives import as_scalar


class TakesLosses(CheckedGroups):
    """An optimizer whose ``step()`` finds the loss that belongs to ``p.grad``."""

    def __init__(self, params: ParamsT, defaults: Group) -> None:
        self._handed_over = HandedOver()
        super().__init__(params, defaults)

    def hand_over(self, loss: Any) -> None:
        """Hand a loss over for the next ``step()``, as ``backward()`` does with its gradient.

        Losses add up as gradients do, until a step without ``loss=`` uses their sum or
        :meth:`zero_grad` drops it. So micro-batches come out right, and so do frameworks and
        ``GradScaler``, which call ``step()`` themselves. Nothing waits for the device.

        Args:
            loss: what ``backward()`` is called on, once, before or after; with a GradScaler the
                unscaled loss.
        """
        value = whole(checked_loss(loss, "the loss that is handed over"))
        self._handed_over.refuse_if_lost(self._all_params)
        self._handed_over.add(as_scalar(value, *self._scalar_format()))

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Zero the gradients and drop the losses that were handed over with them.

        Args:
            set_to_none: whether gradients become None instead of 0.
        """
        self._handed_over.drop()
        super().zero_grad(set_to_none)

    def _scalar_format(self) -> tuple[torch.dtype, torch.device]:
        """Format and place of losses, norms and steps."""
        params = self._all_params
        wide = any(param.dtype == torch.float64 for param in params)
        device = params[0].device if params else torch.device("cpu")
        return torch.float64 if wide else torch.float32, device

    def __getstate__(self) -> Group:
        # A pickled parameter leaves its gradient behind.
        return {**super().__getstate__(), "_handed_over": HandedOver()}
