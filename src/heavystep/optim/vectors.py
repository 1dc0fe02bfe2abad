"""Work on whole parameter vectors: squared norm and the update of a momentum form.

The update has one definition, the ``move`` of the form, for one tensor. For heavy ball
multi-tensor kernels replace it where they compute the same and are faster. Nothing here reads a
device value on the host.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch._utils import _flatten_dense_tensors as flatten

from heavystep.momentum import HEAVY_BALL, Form
from heavystep.optim.torch_primitives import as_scalar

HALF = (torch.float16, torch.bfloat16)
_ROW = 4096


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
    for alike in _by_dtype(tensors):
        if alike[0].device.type != "cpu":
            norms.append(torch.stack(torch._foreach_norm(alike, 2, dtype)))
            continue
        vectors = [tensor.reshape(-1) for tensor in alike if tensor.numel() > _ROW]
        short = [tensor for tensor in alike if tensor.numel() <= _ROW]
        if short:
            vectors.append(flatten(short))  # type: ignore[no-untyped-call]
        for vector in vectors:
            whole = vector.numel() // _ROW * _ROW
            rows = vector[:whole].view(-1, _ROW)
            norms.append(torch.linalg.vector_norm(rows, dim=1, dtype=dtype))
            norms.append(torch.linalg.vector_norm(vector[whole:], dtype=dtype).unsqueeze(0))
    return torch.cat(norms).square().sum()


def _by_dtype(tensors: list[Tensor]) -> list[list[Tensor]]:
    return [[tensors[i] for i in indices] for indices in indices_by_dtype(tensors)]


def indices_by_dtype(tensors: list[Tensor]) -> list[list[int]]:
    """Places of the tensors of each format: kernels for many tensors ask for one."""
    dtypes = {tensor.dtype: None for tensor in tensors}
    if len(dtypes) == 1:
        return [list(range(len(tensors)))]
    return [[i for i, t in enumerate(tensors) if t.dtype == dtype] for dtype in dtypes]


class Update(NamedTuple):
    """One step of a momentum form: theta <- shrink * theta + motion."""

    form: Form
    step: Tensor | float
    momentum: Tensor | float
    shrink: Tensor | float | None
    """The factor of decoupled weight decay, which is not part of the motion."""
    accepted: Tensor
    """Where false nothing changes, whatever the gradients hold."""


def _moved(
    param: Tensor, grad: Tensor, buffer: Tensor | None, update: Update, divisor: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """New parameter and buffer: the definition of the update."""
    dtype = state_dtype(param.dtype)
    theta = param.to(dtype)
    past = 0.0 if buffer is None else buffer
    step = update.step if divisor is None else update.step / divisor
    motion, new_buffer = update.form.move(past, grad.to(dtype), step, update.momentum)
    origin = theta if update.shrink is None else update.shrink * theta
    new_param = torch.where(update.accepted, origin + motion, theta)
    if buffer is None:
        return new_param, None
    return new_param, torch.where(update.accepted, new_buffer, buffer)


Pull = Callable[[list[Tensor], Tensor, Tensor], None]
"""Takes a multiple of what it was made of from tensors, unless the last argument is 1."""


class Stretching(Protocol):
    """The diagonal, by which the step of each parameter is divided."""

    def divisors(self) -> list[Tensor]:
        """All of it."""

    def in_passing(self, moving: list[Tensor]) -> list[int]:
        """For which of the tensors that are moved a kernel divides as it goes."""

    def divided(self, grads: list[Tensor]) -> list[Tensor]:
        """The gradients, those of other tensors divided."""

    def pull(self, some: list[int]) -> Pull:
        """That kernel, for some of them."""


def move(
    params: list[Tensor],
    grads: list[Tensor],
    buffers: list[Tensor] | None,
    update: Update,
    foreach: bool,
    stretch: Stretching | None = None,
) -> None:
    """Apply ``update`` in place.

    Args:
        params: in place.
        grads: their gradients.
        buffers: of the momentum form; None stands for zeros that need not be kept.
        update: the step.
        foreach: whether multi-tensor kernels may be used.
        stretch: the diagonal; None: 1.
    """
    several = _FUSED.get(update.form)
    steered = isinstance(update.momentum, Tensor)
    # A compiler fuses by itself.
    if several is None or not foreach or steered or torch.compiler.is_compiling():
        divisors = None if stretch is None else stretch.divisors()
        _one_by_one(params, grads, buffers, update, divisors)
        return
    passing: set[int] = set()
    if stretch is not None:  # the fused forms use the step in the product with the gradient only
        passing = set(stretch.in_passing(buffers or params))
        grads = stretch.divided(grads)
    moving = buffers or grads
    for indices in indices_by_dtype(params):
        pulled: list[int] = []
        fused: list[int] = []
        others: list[int] = []
        has_kernel = has_fused_kernel(params[indices[0]])
        for i in indices:
            if i in passing:
                pulled.append(i)
                continue
            can_walk = has_kernel and walkable(params[i], grads[i], moving[i])
            (fused if can_walk else others).append(i)
        kernels = [(several, fused), (_one_by_one, others)]
        if stretch is not None and pulled:
            kernels.append((partial(several, pull=stretch.pull(pulled)), pulled))
        for kernel, some in kernels:
            if some:
                kernel(
                    [params[i] for i in some],
                    [grads[i] for i in some],
                    [buffers[i] for i in some] if buffers else None,
                    update,
                )


def _one_by_one(
    params: list[Tensor],
    grads: list[Tensor],
    buffers: list[Tensor] | None,
    update: Update,
    divisors: list[Tensor] | None = None,
) -> None:
    for index, (param, grad) in enumerate(zip(params, grads, strict=True)):
        buffer = buffers[index] if buffers else None
        divisor = divisors[index] if divisors else None
        new_param, new_buffer = _moved(param, grad, buffer, update, divisor)
        param.copy_(new_param)
        if buffer is not None and new_buffer is not None:
            buffer.copy_(new_buffer)


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
    refused = accepted.logical_not().to(torch.float32)
    if update.shrink is not None:
        shrink = as_scalar(update.shrink, dtype, accepted.device)
        torch._foreach_mul_(params, torch.where(accepted, shrink, 1.0))
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


_FUSED: dict[Form, Callable[..., None]] = {HEAVY_BALL: _fused_heavy_ball}
"""Momentum forms that have a kernel for many tensors."""


def moves_many(form: Form) -> bool:
    """Whether a momentum form has a kernel for many tensors."""
    return form in _FUSED


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
