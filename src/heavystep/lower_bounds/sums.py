"""Bounds of sums of losses."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from heavystep import validation
from heavystep.lower_bounds.targets import readable


def weighted_sum(bounds: Sequence[Any], weights: Sequence[Any] | None = None) -> Any:
    r"""Bound of a sum of losses with weights: the sum of their bounds with the same weights.

    .. math:: \ell = \sum_j w_j \ell_j \qquad\text{for}\qquad \sum_j w_j f_j, \quad w_j \ge 0

    It holds always, and is the least value if one model can reach all bounds at once. A penalty
    such as a squared norm is one more term, with bound 0.

    Args:
        bounds: of each loss: numbers, or tensors with one element.
        weights: of each loss, >= 0; by default 1. A negative weight would want an upper bound and
            is refused, unless it is a tensor on another device, which is not read.

    Returns:
        A number, or a 0-dim tensor if there is one among them.

    >>> from heavystep.lower_bounds import label_smoothing
    >>> round(weighted_sum([label_smoothing(0.1, classes=10), 0.0], [0.5, 0.01]), 6)
    0.250144
    """
    weights = [1.0] * len(bounds) if weights is None else weights
    if len(bounds) != len(weights):
        raise ValueError(f"there must be one weight a bound, got {len(weights)} for {len(bounds)}")
    total: Any = 0.0
    for j, (bound, weight) in enumerate(zip(bounds, weights, strict=True)):
        total = total + _scalar(f"weights[{j}]", weight, validation.NON_NEGATIVE) * _scalar(
            f"bounds[{j}]", bound, validation.FINITE
        )
    return total


def _scalar(name: str, value: Any, interval: validation.Interval) -> Any:
    """A number in the range, or a 0-dim tensor; not read if it is on another device."""
    if not isinstance(value, Tensor):
        validation.real(name, value, interval)
        return value
    if value.numel() != 1:
        raise ValueError(f"{name} must have one element, got {value.numel()}")
    value = value.detach().reshape(())
    if readable(value):
        validation.real(name, value, interval)
    return value
