"""BatchNorm's statistics at an averaged iterate, and those of training afterwards."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import swa_utils


class KeptBuffers:
    """The buffers of models as they were, to be put back."""

    def __init__(self) -> None:
        self._kept: dict[tuple[nn.Module, str], tuple[Tensor, Tensor]] = {}

    def keep(self, model: nn.Module) -> None:
        """Remember all buffers of a model, unless they are remembered already."""
        for module in model.modules():
            for name, buffer in module._buffers.items():
                if buffer is not None and (module, name) not in self._kept:
                    self._kept[module, name] = buffer, buffer.detach().clone()

    def put_back(self) -> None:
        """Give the buffers their values, in the memory that they had, and forget them."""
        with torch.no_grad():
            for (module, name), (buffer, value) in self._kept.items():
                buffer.copy_(value)
                module._buffers[name] = buffer
        self._kept.clear()


def estimate(loader: Iterable[Any], model: nn.Module, device: Any) -> None:
    """What torch's ``update_bn`` does, after which every module is in the mode that it was in."""
    with _same_modes(model):
        swa_utils.update_bn(loader, model, device)


@contextmanager
def _same_modes(model: nn.Module) -> Iterator[None]:
    """Give modules back their modes, and BatchNorm its momentum, even after an exception."""
    modes = [(module, module.training) for module in model.modules()]
    momenta = [
        (m, m.momentum) for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)
    ]
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
        for norm, momentum in momenta:
            norm.momentum = momentum
