"""What belongs to a parameter has its shape: kernels walk memory without looking."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from heavystep.optim.groups import Group
from heavystep.optim.ranks import local

NEW_GRADIENT = "call zero_grad() and backward() after exchanging a parameter"
NEW_STATE = "load a state of this model, or make a new optimizer for a new parameter"


def check_shapes(
    buffers: Sequence[str],
    params: list[Tensor],
    grads: list[Tensor],
    state: Mapping[Any, Any],
    groups: list[Group],
) -> None:
    """Refuse gradients and buffers that do not fit their parameters.

    Every step does this, so that plain tensors cost three shapes and nothing else.

    Args:
        buffers: what the state of a parameter is called, as far as it has the parameter's shape.
        params: those with a gradient.
        grads: their gradients.
        state: of all parameters.
        groups: all groups, for the message.
    """
    for param, grad in zip(params, grads, strict=True):
        shape, sharded = param.shape, hasattr(param, "to_local")
        if grad.shape != shape or (sharded and not _has_shape_of(param, grad)):
            raise misshapen("gradient", grad, param, groups)
        kept = state.get(param) or {}
        for buffer in buffers if kept else ():
            found = kept.get(buffer)
            if found is None:
                continue
            if found.shape != shape or (sharded and not _has_shape_of(param, found)):
                raise misshapen(buffer, found, param, groups)


def check_buffers(buffers: Sequence[str], state: Mapping[Any, Any], groups: list[Group]) -> None:
    """Refuse a state in which a buffer does not fit its parameter."""
    for param in (param for group in groups for param in group["params"]):
        for buffer in buffers:
            found = state.get(param, {}).get(buffer)
            if found is not None and not _has_shape_of(param, found):
                raise misshapen(buffer, found, param, groups)


def _has_shape_of(param: Tensor, tensor: Tensor) -> bool:
    """Whether a tensor has a parameter's shape, and this process holds as much of it."""
    return tensor.shape == param.shape and local(tensor).shape == local(param).shape


def misshapen(what: str, tensor: Tensor, param: Tensor, groups: list[Group]) -> ValueError:
    """The refusal of a tensor that does not fit its parameter."""
    places = ((i, k) for i, group in enumerate(groups) for k in range(len(group["params"])))
    i, k = next((i, k) for i, k in places if groups[i]["params"][k] is param)
    names = groups[i].get("param_names")
    name = f" ({names[k]})" if names else ""
    return ValueError(
        f"the {what} of parameter {k} in group {i}{name} must have its shape {_shape(param)}, "
        f"got {_shape(tensor)}: {NEW_GRADIENT if what == 'gradient' else NEW_STATE}"
    )


def _shape(tensor: Tensor) -> str:
    part = local(tensor)
    return f"{tuple(tensor.shape)}" + ("" if part is tensor else f", here {tuple(part.shape)}")
