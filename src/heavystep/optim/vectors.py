"""All work on whole parameter vectors: squared norm, trial move and heavy-ball update.

Each operation has a plain one-tensor form, which is its definition, and a multi-tensor
form used where it is exact and faster. Neither ever reads a device value on the host.
"""

import torch
from torch import Tensor

HALF = (torch.float16, torch.bfloat16)
_ROW = 4096
_FUSED_DEVICES = ("cpu", "cuda")


def state_dtype(dtype: torch.dtype) -> torch.dtype:
    """Format of displacements and scalars: at least float32."""
    return torch.float32 if dtype in HALF else dtype


def squared_norm(tensors: list[Tensor], dtype: torch.dtype, foreach: bool) -> Tensor:
    """Sum of squares over all tensors, accumulated in ``dtype``.

    On the CPU a long float32 tensor is reduced in rows of 4096: summed in one go its
    squared norm would be wrong by 5e-5 (relative), in rows by 1e-8, and it is faster.
    """
    if not foreach:
        return torch.stack([tensor.to(dtype).square().sum() for tensor in tensors]).sum()
    norms: list[Tensor] = []
    whole: list[Tensor] = []
    for tensor in tensors:
        if tensor.numel() <= _ROW or tensor.device.type != "cpu" or not tensor.is_contiguous():
            whole.append(tensor)
            continue
        flat = tensor.view(-1)
        rows = flat.numel() // _ROW
        body = flat[: rows * _ROW].view(rows, _ROW)
        norms.append(torch.linalg.vector_norm(body, dim=1, dtype=dtype))
        if rows * _ROW < flat.numel():
            whole.append(flat[rows * _ROW :])
    for per_format in _by_dtype(whole):
        norms.append(torch.stack(torch._foreach_norm(per_format, 2, dtype)).to(dtype))
    return torch.cat(norms).square().sum()


def _by_dtype(tensors: list[Tensor]) -> list[list[Tensor]]:
    lists: dict[torch.dtype, list[Tensor]] = {}
    for tensor in tensors:
        lists.setdefault(tensor.dtype, []).append(tensor)
    return list(lists.values())


def move_along(
    params: list[Tensor], origin: list[Tensor], grads: list[Tensor], step: float
) -> None:
    """Set ``params`` to ``origin - step * grads``, from the saved copy so that nothing drifts."""
    torch._foreach_copy_(params, origin)
    torch._foreach_add_(params, grads, alpha=-step)


def heavy_ball(
    params: list[Tensor],
    grads: list[Tensor],
    displacements: list[Tensor] | None,
    *,
    step: Tensor,
    momentum: float,
    shrink: Tensor | None,
    accepted: Tensor,
    foreach: bool,
) -> None:
    """Apply theta <- shrink * theta + d with d <- momentum * d - step * g, if ``accepted``.

    ``displacements`` hold d = theta_k - theta_{k-1} (without the shrinking of decoupled
    weight decay) and are updated; None stands for zeros that need not be kept. Where
    ``accepted`` is false nothing changes, whatever the gradients hold.
    """
    fast: dict[torch.dtype, list[int]] = {}
    for index, (param, grad) in enumerate(zip(params, grads, strict=True)):
        displacement = displacements[index] if displacements is not None else None
        if foreach and _fusable(param, grad, displacement):
            fast.setdefault(param.dtype, []).append(index)
        else:
            _heavy_ball_one(param, grad, displacement, step, momentum, shrink, accepted)
    for dtype, indices in fast.items():
        _heavy_ball_many(
            [params[i] for i in indices],
            [grads[i] for i in indices],
            [displacements[i] for i in indices] if displacements is not None else None,
            step.to(dtype),
            momentum,
            shrink if shrink is None else shrink.to(dtype),
            accepted,
        )


def _heavy_ball_one(
    param: Tensor,
    grad: Tensor,
    displacement: Tensor | None,
    step: Tensor,
    momentum: float,
    shrink: Tensor | None,
    accepted: Tensor,
) -> None:
    dtype = state_dtype(param.dtype)
    moved = -step * grad.to(dtype)
    if displacement is not None:
        moved = momentum * displacement + moved
        displacement.copy_(torch.where(accepted, moved, displacement))
    origin = param.to(dtype) if shrink is None else param.to(dtype) * shrink
    param.copy_(torch.where(accepted, origin + moved, param.to(dtype)))


def _heavy_ball_many(
    params: list[Tensor],
    grads: list[Tensor],
    displacements: list[Tensor] | None,
    step: Tensor,
    momentum: float,
    shrink: Tensor | None,
    accepted: Tensor,
) -> None:
    if shrink is not None:
        torch._foreach_mul_(params, torch.where(accepted, shrink, 1.0))
    if displacements is None:
        _subtract_scaled(params, grads, step, accepted)
        return
    # Times 1 leaves a refused displacement as it was, to the bit.
    torch._foreach_mul_(displacements, torch.where(accepted, torch.full_like(step, momentum), 1.0))
    _subtract_scaled(displacements, grads, step, accepted)
    _subtract_scaled(params, displacements, torch.full_like(step, -1.0), accepted)


def _subtract_scaled(
    targets: list[Tensor], vectors: list[Tensor], scale: Tensor, accepted: Tensor
) -> None:
    """``targets -= scale * vectors`` if ``accepted``, both read on the device.

    Momentum-free fused SGD is the one multi-tensor kernel in torch whose factor and
    whose condition are tensors: a product with a mask would turn inf and NaN into NaN.
    """
    torch._fused_sgd_(
        targets,
        vectors,
        [],
        weight_decay=0.0,
        momentum=0.0,
        lr=scale,
        dampening=0.0,
        nesterov=False,
        maximize=False,
        is_first_step=False,
        found_inf=torch.where(accepted, 0.0, 1.0).to(torch.float32),
    )


def _fusable(param: Tensor, grad: Tensor, displacement: Tensor | None) -> bool:
    """Whether the fused kernel, which walks raw memory, computes what the plain form does."""
    if torch.compiler.is_compiling():  # the compiler fuses the plain form itself
        return False
    dtype = param.dtype
    if dtype in HALF or grad.dtype != dtype or param.device.type not in _FUSED_DEVICES:
        return False
    if dtype == torch.float64 and param.device.type == "cuda":  # the kernel's factor is float32
        return False
    strides = param.stride()
    dense = param.is_contiguous() or (
        param.dim() == 4 and param.is_contiguous(memory_format=torch.channels_last)
    )
    return (
        dense
        and grad.stride() == strides
        and (displacement is None or displacement.stride() == strides)
    )
