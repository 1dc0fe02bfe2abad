"""The diagonal of a method at work: averages of squared gradients, one tensor a parameter."""

from collections.abc import MutableMapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from heavystep.methods import Method
from heavystep.momentum.diagonal import SQUARES, WEIGHT
from heavystep.optim.ranks import local
from heavystep.optim.sample import Active
from heavystep.optim.vectors import state_dtype


class Stretch(NamedTuple):
    """The diagonal for one batch of one group, in the order of its parameters."""

    divisors: list[Tensor]
    """D_k, as far as this process holds it."""
    squares: list[Tensor]
    """The averages with this batch in them; kept if it is accepted."""
    weights: list[Tensor]


def averages(active: Active, state: MutableMapping[Any, Any]) -> list[tuple[Tensor, Tensor]]:
    """Average square and weight of each parameter, made where they are missing."""
    found = []
    for param in active.params:
        own, dtype = state[param], state_dtype(param.dtype)
        if SQUARES not in own:
            own[SQUARES] = torch.zeros_like(param, dtype=dtype)
            own[WEIGHT] = torch.zeros((), dtype=dtype, device=param.device)
        for name in (SQUARES, WEIGHT):
            if own[name].device != param.device or own[name].dtype != dtype:  # the model was moved
                own[name] = own[name].to(param.device, dtype)
        found.append((local(own[SQUARES]), own[WEIGHT]))
    return found


def stretched(method: Method, active: Active, state: MutableMapping[Any, Any]) -> Stretch | None:
    """The diagonal with this batch's gradients in it; None if the method has none."""
    diagonal = method.diagonal
    if diagonal is None:
        return None
    beta2, eps = active.group["beta2"], active.group["diagonal_eps"]
    stretch = Stretch([], [], [])
    for (squares, weight), slope in zip(averages(active, state), active.slopes, strict=True):
        stretch.squares.append(diagonal.average(squares, slope.to(squares.dtype), beta2))
        stretch.weights.append(diagonal.weigh(weight, beta2))
        stretch.divisors.append(diagonal.divisor(stretch.squares[-1], stretch.weights[-1], eps))
    return stretch


def keep(
    stretch: Stretch | None, active: Active, state: MutableMapping[Any, Any], accepted: Tensor
) -> None:
    """Put the averages with the batch in them in place, where it is accepted."""
    if stretch is None:
        return
    new = zip(stretch.squares, stretch.weights, strict=True)
    for old, fresh in zip(averages(active, state), new, strict=True):
        for place, value in zip(old, fresh, strict=True):
            place.copy_(torch.where(accepted, value, place))
