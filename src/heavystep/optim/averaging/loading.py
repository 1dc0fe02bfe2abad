"""A state of an average is loaded whole, or refused with nothing changed."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from heavystep import validation
from heavystep.optim.ranks import local

STATE = {"power", "count", "averages"}
"""What a state holds."""


def check_state(state: Any, params: list[Tensor]) -> None:
    """Refuse what is no state of an average of these parameters.

    Args:
        state: what was given.
        params: all parameters of the optimizer.

    Raises:
        TypeError: a value is of another kind.
        ValueError: it lacks something, or a value is out of range.
    """
    if not isinstance(state, Mapping) or not state.keys() >= STATE:
        got = sorted(map(str, state)) if isinstance(state, Mapping) else state
        wanted = ", ".join(sorted(STATE))
        raise ValueError(f"state_dict must be that of an Average, with {wanted}, got {got!r}")
    validation.real("power", state["power"], validation.NON_NEGATIVE)
    count, averages = state["count"], state["averages"]
    one = isinstance(count, Tensor) and not count.ndim
    validation.integer("count", count.item() if one else count, least=0)
    if not isinstance(averages, Mapping):
        raise TypeError(f"averages must be tensors by places of parameters, got {averages!r}")
    for place, value in averages.items():
        validation.integer("the place of an average", place, least=0)
        _check_fits(place, value, params)


def _check_fits(place: int, value: Any, params: list[Tensor]) -> None:
    if place >= len(params):
        raise ValueError(
            f"there must be a parameter for each average, got average {place} of {len(params)} "
            "parameters"
        )
    param = params[place]
    if not isinstance(value, Tensor) or value.is_complex() != param.is_complex():
        raise TypeError(f"average {place} must be a tensor as its parameter is, got {value!r}")
    if local(value).shape != local(param).shape:
        raise ValueError(
            f"average {place} must have the shape of its parameter, {tuple(local(param).shape)}, "
            f"got {tuple(local(value).shape)}"
        )
