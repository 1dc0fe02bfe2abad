"""Work on whole parameter vectors: squared norm and the update of a momentum form.

The update has one definition, the ``move`` of the form, for one tensor. Kernels for many tensors
(:mod:`heavystep.optim.fused`) replace it where they compute the same and are faster. Nothing here
reads a device value on the host.
"""

from functools import partial
from typing import Protocol

import torch
from torch import Tensor
from torch._utils import _flatten_dense_tensors as flatten

from heavystep.optim.fused import FUSED, HALF, Pull, Update, has_fused_kernel, walkable

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


def _moved(
    param: Tensor, grad: Tensor, buffer: Tensor | None, update: Update, divisor: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """New parameter and buffer: the definition of the update."""
    dtype = state_dtype(param.dtype)
    theta = param.to(dtype)
    past = 0.0 if buffer is None else buffer
    step = update.step if divisor is None else update.step / divisor
    slope = grad.to(dtype)
    motion, new_buffer = update.form.move(past, slope, step, update.momentum, update.weight)
    origin = theta if update.shrink is None else update.shrink * theta
    new_param = torch.where(update.accepted, origin + motion, theta)
    if buffer is None:
        return new_param, None
    return new_param, torch.where(update.accepted, new_buffer, buffer)


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
    several = FUSED.get(update.form)
    steered = isinstance(update.momentum, Tensor) and not update.form.averages
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
