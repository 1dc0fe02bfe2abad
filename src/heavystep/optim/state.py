"""The momentum's buffers: one a parameter, at least in float32, where the parameter is."""

from collections.abc import MutableMapping
from typing import Any

import torch
from torch import Tensor

from heavystep.optim.groups import Group
from heavystep.optim.ranks import local
from heavystep.optim.sample import Active
from heavystep.optim.vectors import state_dtype

State = MutableMapping[Any, Any]


def momentum_buffers(name: str, active: Active, state: State) -> list[Tensor] | None:
    """What this process holds of the buffers of a group; None while there is no momentum.

    Args:
        name: what the momentum form calls them.
        active: the group.
        state: of all parameters, in which missing buffers are made.
    """
    if not active.group["momentum"] and not any(state.get(param) for param in active.params):
        return None
    buffers = []
    for param in active.params:
        own, dtype = state[param], state_dtype(param.dtype)
        buffer = own.get(name)
        if buffer is None:
            buffer = own[name] = torch.zeros_like(param, dtype=dtype)
        elif buffer.get_device() != param.get_device() or buffer.dtype != dtype:
            buffer = own[name] = buffer.to(param.device, dtype)  # the model was moved
        buffers.append(local(buffer))
    return buffers


def keep_wide(name: str, saved: Group, params: list[Tensor], state: State) -> None:
    """Undo what torch does to a state that it loads: it rounds it to the parameter's format.

    Args:
        name: what the momentum form calls its buffers.
        saved: the state dict that was loaded.
        params: all parameters.
        state: of all parameters, as torch loaded it.
    """
    saved_ids = [i for group in saved["param_groups"] for i in group["params"]]
    for saved_id, param in zip(saved_ids, params, strict=True):
        buffer, dtype = saved["state"].get(saved_id, {}).get(name), state_dtype(param.dtype)
        if buffer is not None and param.dtype != dtype:
            state[param][name] = buffer.detach().to(param.device, dtype, copy=True)
