"""Targets as they are given, looked at before a bound is computed from them."""

from typing import Any

import torch
from torch import Tensor

from heavystep import validation


def tensor_of(name: str, value: Any) -> Tensor:
    """A tensor of what was given: a tensor, an array, or lists of numbers.

    >>> tensor_of("target", [0, 2]).dtype
    torch.int64
    >>> tensor_of("target", "cat")
    Traceback (most recent call last):
    TypeError: target must be a tensor, got 'cat'
    """
    try:
        return value.detach() if isinstance(value, Tensor) else torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{name} must be a tensor, got {value!r}") from None


def readable(tensor: Tensor) -> bool:
    """Whether values can be looked at without waiting for a device."""
    return tensor.device.type == "cpu"


def labels_of(name: str, value: Any, classes: int | None, ignore_index: int) -> Tensor:
    """Class indices as a tensor. Those on another device are not read.

    Args:
        name: of the argument.
        value: what was given.
        classes: how many there are, if that is known.
        ignore_index: label that does not count.

    Raises:
        TypeError: they are no integers.
        ValueError: one is no class.
    """
    labels = tensor_of(name, value)
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise TypeError(
            f"{name} must be class indices, got {labels.dtype}: probabilities are for cross_entropy"
        )
    if readable(labels):
        wrong = (labels != ignore_index) & ((labels < 0) | (labels >= (classes or torch.inf)))
        if wrong.any():
            below = "" if classes is None else f" and < {classes}"
            raise ValueError(f"{name} must be >= 0{below}, got {int(labels[wrong][0])}")
    return labels


def check_smoothing(eps: float, classes: int | None) -> None:
    """Refuse numbers out of range."""
    validation.real("label_smoothing", eps, validation.CLOSED_UNIT)
    if classes is not None:
        validation.integer("classes", classes, least=1)
