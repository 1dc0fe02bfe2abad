"""The diagonal of a method at work: averages of squared gradients, one tensor a parameter."""

from collections.abc import MutableMapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from heavystep.methods import Method
from heavystep.momentum.diagonal import SQUARES, WEIGHT
from heavystep.optim import adam_kernel
from heavystep.optim.fused import Pull, walkable
from heavystep.optim.ranks import Ranks, local
from heavystep.optim.sample import Active
from heavystep.optim.vectors import indices_by_dtype, state_dtype

State = MutableMapping[Any, Any]


def averages(active: Active, state: State) -> tuple[list[Tensor], list[Tensor]]:
    """Average squares and weights of the parameters, made where they are missing."""
    found: list[Tensor] = []
    for param in active.params:
        own, dtype, place = state[param], state_dtype(param.dtype), param.get_device()
        if SQUARES not in own:
            own[SQUARES] = torch.zeros_like(param, dtype=dtype)
            own[WEIGHT] = torch.zeros((), dtype=dtype, device=param.device)
        for name in (SQUARES, WEIGHT):
            held = own[name]
            if held.get_device() != place or held.dtype != dtype:  # the model was moved
                held = own[name] = held.to(param.device, dtype)
            found.append(held)
    return [local(squares) for squares in found[::2]], found[1::2]


class Stretch:
    """The diagonal for one batch of one group, in the order of its parameters.

    Where torch has a kernel that computes it in passing it is computed twice, for the norm and for
    the step, and never kept; elsewhere once.

    Args:
        method: which has a diagonal.
        active: the group.
        state: of all parameters.
        foreach: whether kernels for many tensors may be used.
    """

    def __init__(self, method: Method, active: Active, state: State, foreach: bool) -> None:
        assert method.diagonal is not None
        self._diagonal, self._grads, self._slopes = method.diagonal, active.grads, active.slopes
        self._beta2, self._eps = active.group["beta2"], active.group["diagonal_eps"]
        self._squares, self._weights = averages(active, state)
        self._alike = indices_by_dtype(self._weights)
        self._old = [torch.stack([self._weights[i] for i in some]) for some in self._alike]
        self._new = [self._diagonal.weigh(old, self._beta2) for old in self._old]
        self._new_weights: list[Tensor] = []
        self._made: dict[int, tuple[Tensor, Tensor]] = {}
        self._passing: dict[int, float] = {}
        """Weights of those that the kernel takes."""
        if foreach:
            taken = adam_kernel.walks(method, active.places, self._slopes, self._squares)
            weights = self._in_order([new.tolist() for new in self._new]) if taken else []
            self._passing = {i: weights[i] for i in taken}
        self._pulled: list[int] = []

    def _in_order(self, lists: list[Any]) -> list[Any]:
        """What belongs to parameters, from a list for each format."""
        if len(lists) == 1:
            return list(lists[0])
        pairs = (
            zip(some, each, strict=True) for some, each in zip(self._alike, lists, strict=True)
        )
        found = dict(pair for some in pairs for pair in some)
        return [found[i] for i in range(len(found))]

    def _new_weight(self, i: int) -> Tensor:
        if not self._new_weights:
            self._new_weights = self._in_order([new.unbind() for new in self._new])
        return self._new_weights[i]

    def _entry(self, i: int) -> tuple[Tensor, Tensor]:
        """The average with this batch in it, and D_k."""
        if i not in self._made:
            diagonal, before = self._diagonal, self._squares[i]
            new = diagonal.average(before, self._slopes[i].to(before.dtype), self._beta2)
            self._made[i] = new, diagonal.divisor(new, self._new_weight(i), self._eps)
        return self._made[i]

    def _walk(self, some: list[int]) -> adam_kernel.Slopes:
        return adam_kernel.Slopes(
            [self._slopes[i] for i in some],
            [self._squares[i] for i in some],
            [self._passing[i] for i in some],
            self._beta2,
            self._eps,
        )

    def divisors(self) -> list[Tensor]:
        """D_k, as far as this process holds it."""
        return [self._entry(i)[1] for i in range(len(self._squares))]

    def kept_divisors(self) -> list[Tensor | None]:
        """The same; None where the kernel computes it in passing."""
        every = range(len(self._squares))
        return [None if i in self._passing else self._entry(i)[1] for i in every]

    def squares_in_passing(self, ranks: Ranks, dtype: torch.dtype) -> Any:
        """The part of this process in g' D_k^-1 g and ||g||^2, where the divisor is not kept."""
        taken = list(self._passing)

        def part(some: list[int]) -> Tensor:
            return adam_kernel.stretched_squares(self._walk([taken[k] for k in some]), dtype)

        return ranks.total_share([self._grads[i] for i in taken], part) if taken else (0.0, 0.0)

    def in_passing(self, moving: list[Tensor]) -> list[int]:
        """Those whose divisor is not kept, as far as the kernel can walk what is to be moved."""
        self._pulled = [i for i in self._passing if walkable(self._slopes[i], moving[i])]
        return self._pulled

    def divided(self, grads: list[Tensor]) -> list[Tensor]:
        """The gradients that the kernel does not divide, divided; the others as they are."""
        pulled, found = set(self._pulled), list(grads)
        rest = [i for i in range(len(grads)) if i not in pulled]
        if rest:
            divisors = [self._entry(i)[1] for i in rest]
            quotients = torch._foreach_div([grads[i] for i in rest], divisors)
            for i, quotient in zip(rest, quotients, strict=True):
                found[i] = quotient
        return found

    def pull(self, some: list[int]) -> Pull:
        """What takes a multiple of g / D_k away, and g into the averages; some of those above."""
        return partial(adam_kernel.pull, self._walk(some))

    def keep(self, accepted: Tensor) -> None:
        """Put the averages with the batch in them in place, where it is accepted."""
        pulled = set(self._pulled)
        for i, place in enumerate(self._squares):
            if i not in pulled:
                place.copy_(torch.where(accepted, self._entry(i)[0], place))
        pairs = zip(self._new, self._old, strict=True)
        kept = [torch.where(accepted, new, old).unbind() for new, old in pairs]
        if kept:
            torch._foreach_copy_(self._weights, self._in_order(kept))


def stretched(method: Method, active: Active, state: State, foreach: bool) -> Stretch | None:
    """The diagonal with this batch's gradients in it; None if the method has none."""
    return None if method.diagonal is None else Stretch(method, active, state, foreach)
