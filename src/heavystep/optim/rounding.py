"""bfloat16 parameters and state, rounded at random: half the memory, and no move is lost.

A bfloat16 number has 8 bits, so that a move of less than 1/512 of a parameter is rounded away, at
every step. Rounded up or down at random, with the odds of where the exact result lies between its
two neighbours, it is right on average. One tensor at a time is widened to float32.
"""

from typing import Any

import torch
from torch import Tensor

from heavystep.momentum import SQUARES, divisor, second_moment
from heavystep.optim.options import DRAWS, state_dtype
from heavystep.optim.ranks import shards
from heavystep.optim.update import Active


def round_at_random(value: Tensor, generator: torch.Generator) -> Tensor:
    """A float32 tensor as bfloat16, which is its first 16 bits: 16 random ones are added before.

    >>> generator = torch.Generator().manual_seed(0)
    >>> value = torch.full((100_000,), 1.001)
    >>> round(round_at_random(value, generator).double().mean().item(), 4)
    1.001
    """
    bits = torch.randint(
        1 << 16, value.shape, generator=generator, dtype=torch.int32, device=value.device
    )
    bits += value.contiguous().view(torch.int32)
    return (bits & -(1 << 16)).view(torch.float32).to(torch.bfloat16)


class Rounded(Active):
    """The same as :class:`Active`, for parameter groups with ``stochastic_rounding``."""

    def _has_kernel(self) -> bool:
        return False

    def _format(self, param: Tensor, name: str) -> torch.dtype:
        whole = name == self._method.form.buffer or (name == SQUARES and self.metric == "element")
        return param.dtype if whole and _is_short(param) else state_dtype(param.dtype)

    def metric_products(self) -> tuple[Any, Any, Any]:
        """Its part of ||g||^2, g' D^-1 g and ||D^-1 g||^2; nothing of a tensor is kept."""
        if self.metric == "tensor":
            return super().metric_products()
        measure = self._measure
        total = torch.zeros(3, dtype=measure.dtype, device=measure.device)
        for i, grad in enumerate(self.grads):
            slope, _, divisors = self._of_element(i)
            pull = slope / divisors
            parts = [(a * b).sum() for a, b in ((slope, slope), (slope, pull), (pull, pull))]
            total += torch.stack(parts) / (measure.ranks.count / shards(grad))
        plain, divided, twice = total.unbind()
        return plain, divided, twice

    def _of_element(self, i: int) -> tuple[Tensor, Tensor, Tensor]:
        """The gradient of a parameter, the average of its squares and the diagonal."""
        wide = state_dtype(self.places[i].dtype)
        slope = self.slopes[i].to(wide)
        squares = second_moment(self._squares[i].to(wide), slope * slope)
        return slope, squares, divisor(squares, second_moment(self._weights[i], 1.0))

    def move(self, step: Any, momentum: Any, weight: Any, shrink: Any, accepted: Any) -> None:
        """As of :class:`Active`; random numbers depend on the count of steps alone."""
        device = self.places[0].device
        recorded = device.type == "cuda" and torch.cuda.is_current_stream_capturing()
        if recorded or torch.compiler.is_compiling():
            raise ValueError(
                "stochastic_rounding draws new numbers at each step, which a recorded or compiled "
                "step cannot: leave one of them out"
            )
        count = self.group[DRAWS] = int(self.group.get(DRAWS, 0)) + 1
        generator = torch.Generator(device).manual_seed(count)

        def keep(old: Tensor, new: Tensor) -> None:
            new = new if accepted is True else torch.where(accepted, new, old)
            old.copy_(round_at_random(new, generator) if _is_short(old) else new)

        by_tensor = self.divisors() if self.metric == "tensor" else None
        for i, place in enumerate(self.places):
            own = step
            if by_tensor is not None:
                own = step / by_tensor[i]
            elif self.metric:
                _, squares, divisors = self._of_element(i)
                own = step / divisors
                keep(self._squares[i], squares)
            theta, buffer = self._moved(i, own, momentum, weight, shrink)
            keep(place, theta)
            if self.buffers:
                keep(self.buffers[i], buffer)
            if self.metric:
                keep(self._weights[i], second_moment(self._weights[i], 1.0))
        if by_tensor is not None:
            for old, new in zip(self._squares, self._news, strict=False):
                keep(old, new)


def _is_short(tensor: Tensor) -> bool:
    return tensor.dtype == torch.bfloat16
