"""Numbers as 0-dim tensors: conversion, and the rules' three primitives for them.

Nothing here synchronises with a device or breaks a graph.
"""

from typing import Any

import torch
from torch import Tensor

from heavystep.rules import Primitives, register


def _where(condition: Any, if_true: Any, if_false: Any) -> Any:
    if not isinstance(condition, Tensor):  # a rule may say True where it means every batch
        return if_true if condition else if_false
    return torch.where(condition, if_true, if_false)


def _minimum(a: Any, b: Any) -> Tensor:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return torch.minimum(a, b)
    tensor, number = (a, b) if isinstance(a, Tensor) else (b, a)
    # A number beyond the tensor's format stands for its largest number.
    return tensor.clamp(max=min(number, torch.finfo(tensor.dtype).max))


def _maximum(a: Any, b: Any) -> Tensor:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return torch.maximum(a, b)
    return a.clamp(min=b) if isinstance(a, Tensor) else b.clamp(min=a)


def as_scalar(value: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A detached 0-dim tensor; a number becomes one without a copy from the host."""
    if isinstance(value, Tensor):
        return value.detach().reshape(()).to(device=device, dtype=dtype)
    return torch.full((), float(value), dtype=dtype, device=device)


def reads_for_free(device: torch.device) -> bool:
    """Whether the host can read a tensor there without waiting, or breaking a compiled graph."""
    return device.type == "cpu" and not torch.compiler.is_compiling()


register(Tensor, Primitives(_where, _minimum, _maximum))
