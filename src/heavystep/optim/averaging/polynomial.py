"""Polynomially weighted averages: the formula, and the form in which torch's own takes it."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from heavystep import validation
from heavystep.momentum import POWER, share_of_next
from heavystep.optim.vectors import state_dtype


def take_in(averages: list[Tensor], values: list[Tensor], share: Tensor) -> None:
    """Move averages by a share of their distance from the values; the host need not know it.

    Args:
        averages: on one device and of one format, changed in place.
        values: of any format.
        share: 0-dim, on that device.
    """
    distances = torch._foreach_sub(values, averages)
    torch._foreach_mul_(distances, share)
    torch._foreach_add_(averages, distances)


def polynomial_average(
    power: float = POWER,
) -> Callable[[Any, Any, Tensor | int], None]:
    """The ``multi_avg_fn`` of a polynomially weighted average, for torch's ``AveragedModel``.

    The weights are those of :func:`heavystep.momentum.share_of_next`. ``AveragedModel`` keeps
    averages in the format of the parameters, which is too short in half precision, and takes
    refused batches in again; :class:`heavystep.Average` does neither and needs no second model.

    Args:
        power: p, >= 0; 0 is the mean of all iterates.

    Returns:
        A function that updates averages in place. Integers, such as BatchNorm's counter with
        ``use_buffers=True``, are copied.

    >>> from torch.optim.swa_utils import AveragedModel
    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> averaged = AveragedModel(model, multi_avg_fn=polynomial_average(power=1.0))
    >>> for value in (3.0, 6.0, 9.0):  # with weights 1, 2, 3
    ...     _ = torch.nn.init.constant_(model.weight, value)
    ...     averaged.update_parameters(model)
    >>> round(averaged.module.weight.item(), 5)
    7.0
    """
    validation.real("power", power, validation.NON_NEGATIVE)

    @torch.no_grad()
    def update(averages: Any, values: Any, count: Tensor | int) -> None:
        first = averages[0]
        if not (first.is_floating_point() or first.is_complex()):
            torch._foreach_copy_(averages, values)
            return
        count = torch.as_tensor(count).to(first.device, state_dtype(first.real.dtype))
        take_in(averages, values, share_of_next(count, power))

    return update
