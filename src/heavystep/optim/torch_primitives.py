"""The rules' three primitives for 0-dim tensors: no host synchronisation, no graph break."""

from typing import Any

import torch
from torch import Tensor

from heavystep.rules import Primitives, register


def _minimum(a: Any, b: Any) -> Tensor:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return torch.minimum(a, b)
    return a.clamp(max=b) if isinstance(a, Tensor) else b.clamp(max=a)


def _maximum(a: Any, b: Any) -> Tensor:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return torch.maximum(a, b)
    return a.clamp(min=b) if isinstance(a, Tensor) else b.clamp(min=a)


register(Tensor, Primitives(torch.where, _minimum, _maximum))
