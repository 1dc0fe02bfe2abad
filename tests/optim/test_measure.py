"""Sums over tensors of all lengths keep the digits of their format."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from heavystep.optim.measure import absolute_sum, squared_norm

SHAPES = [(3,), (5000,), (2, 2048), (600, 1000), (0,), ()]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("reduced", "exact"),
    [(squared_norm, torch.square), (absolute_sum, torch.abs)],
)
def test_sums_of_long_tensors(
    reduced: Callable[[list[Tensor], torch.dtype], Tensor],
    exact: Callable[[Tensor], Tensor],
    dtype: torch.dtype,
) -> None:
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn(shape, generator=generator).to(dtype) for shape in SHAPES]
    tensors += [torch.randn(7, generator=generator)]
    truth = sum(exact(tensor.double()).sum().item() for tensor in tensors)
    # A lane of a row adds 512 numbers; their roundings, of 2^-24, walk as far as 23 of them.
    assert reduced(tensors, torch.float32).item() == pytest.approx(truth, rel=100 * 2.0**-24)
