"""The momentum's buffers, one a parameter and at least in float32, and the step that uses them."""

from collections.abc import MutableMapping
from typing import Any

import torch
from torch import Tensor

from heavystep.methods import Method
from heavystep.optim.deciding import Decision
from heavystep.optim.groups import Group
from heavystep.optim.ranks import local
from heavystep.optim.sample import Active, Sample
from heavystep.optim.vectors import Update, move, state_dtype

State = MutableMapping[Any, Any]


def momentum_buffers(method: Method, active: Active, state: State) -> list[Tensor] | None:
    """What this process holds of the buffers of a group; None if the method has no momentum.

    A momentum that is 0 for now keeps its buffers: it may rise, and the displacement of the step
    before is then wanted.

    Args:
        method: whose momentum form it is.
        active: the group.
        state: of all parameters, in which missing buffers are made.
    """
    if method.without_momentum:
        return None
    name, buffers = method.form.buffer, []
    for param in active.params:
        own, dtype = state[param], state_dtype(param.dtype)
        buffer = own.get(name)
        if buffer is None:
            buffer = own[name] = torch.zeros_like(param, dtype=dtype)
        elif buffer.get_device() != param.get_device() or buffer.dtype != dtype:
            buffer = own[name] = buffer.to(param.device, dtype)  # the model was moved
        buffers.append(local(buffer))
    return buffers


def directions_of(method: Method, groups: list[Active], state: State) -> list[Tensor]:
    """What the step size will multiply, of every parameter that has a gradient."""
    found: list[Tensor] = []
    for active in groups:
        past: list[Any] = momentum_buffers(method, active, state) or [0.0] * len(active.params)
        momentum = active.group["momentum"]
        for buffer, slope in zip(past, active.slopes, strict=True):
            found.append(method.form.direction(buffer, slope, momentum))
    return found


def apply_step(
    method: Method, sample: Sample, decision: Decision, state: State, foreach: bool
) -> None:
    """Take the step that was decided, unless the batch is refused.

    Args:
        method: whose momentum form moves the parameters.
        sample: the batch.
        decision: of the rule.
        state: of all parameters.
        foreach: whether multi-tensor kernels may be used.
    """
    accepted = decision.accepted
    if accepted is False:
        return
    if accepted is True:
        accepted = torch.ones((), dtype=torch.bool, device=sample.grad_sqnorm.device)
    for active in sample.groups:
        if not active.params:
            continue
        group = active.group
        step = group["lr"] * decision.base_step
        decoupled = group["decay"] == "decoupled" and group["weight_decay"]
        shrink = 1.0 - step * group["weight_decay"] if decoupled else None
        update = Update(method.form, step, group["momentum"], shrink, accepted)
        buffers = momentum_buffers(method, active, state)
        move(active.places, active.slopes, buffers, update, foreach)


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
