"""The momentum's buffers, one a parameter and at least in float32, and what is made of them."""

from collections.abc import MutableMapping
from typing import Any

import torch
from torch import Tensor

from heavystep.methods import Method
from heavystep.optim.deciding import Decision
from heavystep.optim.fused import Update
from heavystep.optim.groups import Group
from heavystep.optim.ranks import local
from heavystep.optim.sample import Active, Sample, Vectors
from heavystep.optim.stretching import averages
from heavystep.optim.vectors import move, state_dtype
from heavystep.rules import DIRECTION, PRODUCTS

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
    if not method.keeps_buffer:
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


def vectors_of(
    method: Method, groups: list[Active], state: State, stretches: list[Any]
) -> Vectors | None:
    """What the products that the rule reads are taken of; None if the gradient is enough."""
    wanted = [name for name in PRODUCTS if name in method.rule.reads or name == "grad_sqnorm"]
    if wanted == ["grad_sqnorm"] and method.diagonal is None:
        return None
    names = {name for product in wanted for name in PRODUCTS[product][:2]}
    lists: dict[str, list[Tensor]] = {"gradient": [g for active in groups for g in active.slopes]}
    if "direction" in names:
        lists["direction"] = directions_of(method, groups, state)
    if "buffer" in names:
        lists["buffer"] = [b for a in groups for b in momentum_buffers(method, a, state) or ()]
    if "position" in names:
        lists["position"] = [place for active in groups for place in active.places]
    divisors = [d for stretch in stretches if stretch is not None for d in stretch.kept_divisors()]
    return Vectors(lists, divisors, wanted)


def directions_of(
    method: Method, groups: list[Active], state: State, steered: Any = None
) -> list[Tensor]:
    """What the step size will multiply, of every parameter that has a gradient.

    Args:
        method: whose momentum form it is.
        groups: all groups.
        state: of all parameters.
        steered: the momentum that the rule chose, if it does.
    """
    found: list[Tensor] = []
    for active in groups:
        past: list[Any] = momentum_buffers(method, active, state) or [0.0] * len(active.params)
        momentum = active.group["momentum"] if steered is None else steered
        for buffer, slope in zip(past, active.slopes, strict=True):
            found.append(method.form.direction(buffer, slope, momentum))
    return found


def ways_of(method: Method, sample: Sample, state: State, momentum: Any) -> list[Tensor]:
    """What trials go along, of every parameter that has a gradient.

    Args:
        method: whose trials they are.
        sample: the batch.
        state: of all parameters.
        momentum: that of a rule that steers.
    """
    ways = sample.grads
    if method.rule.along == DIRECTION:
        steered = momentum if method.rule.steers else None
        ways = directions_of(method, sample.groups, state, steered)
    if method.diagonal is None:
        return ways
    divisors = [d for stretch in sample.stretches for d in stretch.divisors()]
    return [way / divisor for way, divisor in zip(ways, divisors, strict=True)]


def make_state(method: Method, groups: list[Active], state: State) -> None:
    """Make the state of every parameter that has a gradient, as far as it is missing."""
    for active in groups:
        momentum_buffers(method, active, state)
        if method.diagonal is not None:
            averages(active, state)


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
    for active, stretch in zip(sample.groups, sample.stretches, strict=True):
        if not active.params:
            continue
        group = active.group
        step = group["lr"] * decision.base_step
        decoupled = group["decay"] == "decoupled" and group["weight_decay"]
        momentum = group["momentum"] if decision.momentum is None else decision.momentum
        shrink = method.form.shrink(step, momentum, decoupled) if decoupled else None
        update = Update(method.form, step, momentum, decision.weight, shrink, accepted)
        buffers = momentum_buffers(method, active, state)
        move(active.places, active.slopes, buffers, update, foreach, stretch)
        if stretch is not None:
            stretch.keep(accepted)


def keep_wide(saved: Group, params: list[Tensor], state: State) -> None:
    """Undo what torch does to a state that it loads: it rounds it to the parameter's format.

    Args:
        saved: the state dict that was loaded.
        params: all parameters.
        state: of all parameters, as torch loaded it.
    """
    saved_ids = [i for group in saved["param_groups"] for i in group["params"]]
    for saved_id, param in zip(saved_ids, params, strict=True):
        dtype = state_dtype(param.dtype)
        if param.dtype == dtype:
            continue
        for name, value in saved["state"].get(saved_id, {}).items():
            if isinstance(value, Tensor) and value.is_floating_point():
                state[param][name] = value.detach().to(param.device, dtype, copy=True)
