r"""Adam's diagonal on torch's fused Adam kernel, on a CPU: nothing of it is kept.

With beta_1 = 0 the kernel computes :math:`v \leftarrow \beta_2 v + (1 - \beta_2) g^2` and
:math:`b \leftarrow b - \gamma g / (\varepsilon + \sqrt{v})` in one walk through memory: what
:mod:`heavystep.momentum.diagonal` defines, with displacements in the place of b. The weight w,
which the host can read here, goes into the two numbers: g / D is
:math:`\sqrt{w}\,g / (\sqrt{w}\,\varepsilon + \sqrt{v})`.
"""

from collections.abc import Iterator
from math import sqrt
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._utils import _flatten_dense_tensors as flatten

from heavystep.methods import Method
from heavystep.momentum import ADAM
from heavystep.optim import torch_primitives
from heavystep.optim.fused import has_fused_kernel, moves_many, walkable
from heavystep.rules import DIRECTION, PRODUCTS

_BLOCK = 1 << 17
"""Elements that are worked on at a time: what belongs to them stays in the cache."""
_SHORT = 4096
"""Tensors up to this length are put together for the norms, which one by one would take longer."""
_LONG_AGO = torch.tensor(1e30)
"""A number of steps after which the kernel corrects no bias itself."""


class Slopes(NamedTuple):
    """Gradients with what their diagonal is made of, in the same order."""

    grads: list[Tensor]
    squares: list[Tensor]
    """v_{k-1}."""
    weights: list[float]
    """w_k."""
    beta2: float
    eps: float

    def alike(self) -> list[list[int]]:
        """Places of those of each format and weight: a call of the kernel takes one."""
        found: dict[Any, list[int]] = {}
        for i, (grad, weight) in enumerate(zip(self.grads, self.weights, strict=True)):
            found.setdefault((grad.dtype, weight), []).append(i)
        return list(found.values())

    def only(self, some: list[int]) -> "Slopes":
        """A part of them."""
        return self._replace(
            grads=[self.grads[i] for i in some],
            squares=[self.squares[i] for i in some],
            weights=[self.weights[i] for i in some],
        )


def walks(
    method: Method, params: list[Tensor], grads: list[Tensor], squares: list[Tensor]
) -> list[int]:
    """For which parameters the kernel computes all that the method wants of its diagonal."""
    rule = method.rule
    divided = {name for name in PRODUCTS if PRODUCTS[name].divided and name in rule.reads}
    aside = rule.searches or rule.along == DIRECTION or divided - {"grad_sqnorm"}
    if aside or method.diagonal is not ADAM or not moves_many(method.form):
        return []
    if not params or not torch_primitives.reads_for_free(params[0].device):
        return []
    every = zip(params, grads, squares, strict=True)
    return [
        i
        for i, (param, grad, square) in enumerate(every)
        if has_fused_kernel(param) and walkable(param, grad, square)
    ]


def stretched_squares(slopes: Slopes, dtype: torch.dtype) -> Tensor:
    """Both g' D^-1 g and ||g||^2, added up in ``dtype``; the averages stay as they are."""
    parts = []
    for some in slopes.alike():
        same = slopes.only(some)
        longest = min(max(_SHORT, *(grad.numel() for grad in same.grads)), _BLOCK)
        quotients, pasts, news = torch.zeros(3, longest, dtype=same.grads[0].dtype).unbind()
        for grad, squares in _blocks(same.grads, same.squares):
            part = slice(0, grad.numel())
            quotient, new = quotients[part].zero_(), news[part].copy_(squares)
            _adam([quotient], [grad], [pasts[part]], [new], -1.0, same)
            parts.append(quotient.mul_(grad).sum(dtype=dtype))
            parts.append(torch.linalg.vector_norm(grad, dtype=dtype).square())
    return torch.stack(parts).view(-1, 2).sum(0)


def pull(slopes: Slopes, places: list[Tensor], scale: Tensor, refused: Tensor) -> None:
    """Take ``scale`` g / D from ``places``, and g into the averages; not where ``refused`` is 1."""
    for some in slopes.alike():
        same = slopes.only(some)
        targets, grads, squares = map(_cut, ([places[i] for i in some], same.grads, same.squares))
        sizes = [target.numel() for target in targets]
        past = torch.zeros(max(sizes), dtype=targets[0].dtype)
        pasts = {size: past[:size] for size in set(sizes)}
        _adam(targets, grads, [pasts[size] for size in sizes], squares, scale, same, refused)


def _adam(
    places: list[Tensor],
    grads: list[Tensor],
    pasts: list[Tensor],
    squares: list[Tensor],
    scale: Tensor | float,
    slopes: Slopes,
    refused: Tensor | None = None,
) -> None:
    """The kernel; ``pasts``, which it writes to, may hold any finite numbers."""
    root = sqrt(slopes.weights[0])
    torch._fused_adam_(
        places,
        grads,
        pasts,
        squares,
        [],
        [_LONG_AGO] * len(places),
        lr=scale * root,
        beta1=0.0,
        beta2=slopes.beta2,
        weight_decay=0.0,
        eps=slopes.eps * root,
        amsgrad=False,
        maximize=False,
        found_inf=refused,
    )


def _blocks(*lists: list[Tensor]) -> Iterator[tuple[Tensor, ...]]:
    """What the lists hold, as vectors of a block at most; short tensors are put together."""
    long: list[int] = []
    short: list[int] = []
    size = 0
    for i, tensor in enumerate(lists[0]):
        length = tensor.numel()
        if length > _SHORT:
            long.append(i)
            continue
        if size + length > _SHORT:
            yield _together(lists, short)
            short, size = [], 0
        short.append(i)
        size += length
    if short:
        yield _together(lists, short)
    yield from zip(*(_cut([tensors[i] for i in long]) for tensors in lists), strict=True)


def _together(lists: tuple[list[Tensor], ...], some: list[int]) -> tuple[Tensor, ...]:
    flat = (flatten([tensors[i] for i in some]) for tensors in lists)  # type: ignore[no-untyped-call]
    return tuple(flat)


def _cut(tensors: list[Tensor]) -> list[Tensor]:
    """The tensors, those that are not short as vectors of a block at most."""
    found: list[Tensor] = []
    for tensor in tensors:
        if tensor.numel() <= _SHORT:
            found.append(tensor)
            continue
        # Walkable tensors are contiguous or have channels last.
        dense = tensor if tensor.is_contiguous() else tensor.permute(0, 2, 3, 1)
        found.extend(torch.split(dense.view(-1), _BLOCK))
    return found
