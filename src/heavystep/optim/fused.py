"""Momentum forms on torch's fused kernels, which move many tensors at once.

Nothing here reads a value on the host that lies elsewhere.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from heavystep.momentum import AVERAGED, HEAVY_BALL, Form
from heavystep.optim import torch_primitives
from heavystep.optim.torch_primitives import as_scalar

HALF = (torch.float16, torch.bfloat16)


class Update(NamedTuple):
    """One step of a momentum form: theta <- shrink * theta + motion."""

    form: Form
    step: Tensor | float
    momentum: Tensor | float
    weight: Tensor | float
    """Of the next point in the average, of a form that averages."""
    shrink: Tensor | float | None
    """The factor of decoupled weight decay, which is not part of the motion."""
    accepted: Tensor
    """Where false nothing changes, whatever the gradients hold."""


Pull = Callable[[list[Tensor], Tensor, Tensor], None]
"""Takes a multiple of what it was made of from tensors, unless the last argument is 1."""


def _fused_heavy_ball(
    params: list[Tensor],
    grads: list[Tensor],
    displacements: list[Tensor] | None,
    update: Update,
    pull: Pull | None = None,
) -> None:
    """Heavy ball on torch's fused SGD kernel, which does nothing where ``refused`` is 1.

    A product with a mask would not do: it turns an infinite or NaN gradient into NaN. ``pull``
    takes the place of the kernel where gradients are subtracted.
    """
    dtype, accepted, step = params[0].dtype, update.accepted, update.step
    beta = float(update.momentum)
    refused = _shrunk(params, update)
    known = isinstance(step, float) and step > 1e-8 and dtype == torch.float32
    if displacements and known and beta and pull is None:  # which the kernel wants with a buffer
        # buffer <- momentum * buffer + (1 - dampening) * gradient, parameter += buffer. In
        # double precision 1 - (1 + step) is the step to more digits than float32 has.
        _sgd(params, grads, displacements, -1.0, refused, beta, 1.0 + float(step))
        return
    scale = as_scalar(step, dtype, accepted.device)
    pull = pull or partial(_straight, grads)
    if displacements is None:
        pull(params, scale, refused)
        return
    # Times 1 leaves a refused displacement as it was, to the bit.
    momentum = torch.where(accepted, torch.full_like(scale, beta), 1.0)
    torch._foreach_mul_(displacements, momentum)
    pull(displacements, scale, refused)
    # Not a product with a mask either: it makes 0 of -0.
    _sgd(params, displacements, [], -1.0, refused)


def _fused_averaged(
    params: list[Tensor],
    grads: list[Tensor],
    leads: list[Tensor] | None,
    update: Update,
    pull: Pull | None = None,
) -> None:
    """Averaged heavy ball in place: from theta to x, from z to the next z, and back to theta.

    Where the host reads numbers for free, the kernel with a buffer does it in fewer passes.
    """
    if leads is None:  # without momentum there is nothing to average
        _fused_heavy_ball(params, grads, leads, update, pull)
        return
    dtype, accepted, beta = params[0].dtype, update.accepted, update.momentum
    refused, device = _shrunk(params, update), accepted.device
    step, weight = (as_scalar(each, dtype, device) for each in (update.step, update.weight))
    if isinstance(beta, Tensor):
        beta = as_scalar(beta, dtype, device)
    if pull is None and dtype == torch.float32 and torch_primitives.reads_for_free(device):
        rest, far = 1.0 - float(weight), float(step) / (1.0 - float(beta))
        if rest * far > 1e-8:
            # The lead that is kept is the rest of the one that theta follows. Dampening: see above.
            follow = float(beta) * float(weight) / rest
            _sgd(params, grads, leads, -follow, refused, rest, 1.0 + rest * far)
            _sgd(params, grads, [], step, refused)
            return
    pull = pull or partial(_straight, grads)
    _sgd(params, leads, [], 1.0 - beta, refused)
    pull(leads, step / (1.0 - beta), refused)
    _sgd(params, leads, [], -(1.0 - beta) - beta * weight, refused)
    # Times 1 leaves a refused lead as it was, to the bit.
    torch._foreach_mul_(leads, torch.where(accepted, 1.0 - weight, 1.0))


def _shrunk(params: list[Tensor], update: Update) -> Tensor:
    """Weight decay; gives 1 where the step is refused, as the kernels want it."""
    accepted = update.accepted
    if update.shrink is not None:
        shrink = as_scalar(update.shrink, params[0].dtype, accepted.device)
        torch._foreach_mul_(params, torch.where(accepted, shrink, 1.0))
    return accepted.logical_not().to(torch.float32)


FUSED: dict[Form, Callable[..., None]] = {
    HEAVY_BALL: _fused_heavy_ball,
    AVERAGED: _fused_averaged,
}
"""Momentum forms that have a kernel for many tensors."""


def moves_many(form: Form) -> bool:
    """Whether a momentum form has a kernel for many tensors."""
    return form in FUSED


def _straight(grads: list[Tensor], places: list[Tensor], scale: Tensor, refused: Tensor) -> None:
    _sgd(places, grads, [], scale, refused)


def _sgd(
    params: list[Tensor],
    grads: list[Tensor],
    buffers: list[Tensor],
    lr: Tensor | float,
    refused: Tensor,
    momentum: float = 0.0,
    dampening: float = 0.0,
) -> None:
    torch._fused_sgd_(
        params,
        grads,
        buffers,
        weight_decay=0.0,
        momentum=momentum,
        lr=lr,
        dampening=dampening,
        nesterov=False,
        maximize=False,
        is_first_step=False,
        found_inf=refused,
    )


def has_fused_kernel(param: Tensor) -> bool:
    """Whether the fused kernels work in the format and on the device of a parameter."""
    if param.dtype in HALF:
        return False
    # On CUDA the kernel's factor is float32.
    return param.is_cpu or (param.is_cuda and param.dtype != torch.float64)


def walkable(param: Tensor, *others: Tensor) -> bool:
    """Whether a fused kernel, which walks raw memory, finds the same element everywhere."""
    dtype, size, contiguous = param.dtype, param.numel(), param.is_contiguous()
    for other in others:
        if other.dtype != dtype or other.numel() != size:
            return False
        contiguous = contiguous and other.is_contiguous()
    if contiguous:
        return True
    dense = param.dim() == 4 and param.is_contiguous(memory_format=torch.channels_last)
    shape, stride = param.shape, param.stride()
    return dense and all(other.shape == shape and other.stride() == stride for other in others)
