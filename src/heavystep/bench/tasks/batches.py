"""Examples in memory, and the order in which they are seen."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

ORDER = 1000
"""Added to the seed of a run for the order of its examples."""


def stream_of(seed: int) -> torch.Generator:
    """The random numbers of a run's batches, which no network draws from."""
    return torch.Generator().manual_seed(seed + ORDER)


class Shuffled:
    """Epochs of all examples in a new order; what is left of an epoch is dropped."""

    def __init__(self, count: int, batch_size: int, seed: int) -> None:
        self._count, self._batch_size = count, batch_size
        self._stream = stream_of(seed)
        self._batches: Iterator[Tensor] = iter(())

    def next(self) -> Tensor:
        """The numbers of the examples in the next batch."""
        batch = next(self._batches, None)
        if batch is None:
            self._batches = self._epoch()
            batch = next(self._batches)
        return batch

    def _epoch(self) -> Iterator[Tensor]:
        order = torch.randperm(self._count, generator=self._stream)
        whole = self._count // self._batch_size
        return iter(order[: whole * self._batch_size].view(whole, self._batch_size))


class Examples(NamedTuple):
    """Inputs and what is to be learnt of them."""

    inputs: Tensor
    targets: Tensor

    def to(self, device: torch.device) -> "Examples":
        """The same on a device."""
        return Examples(self.inputs.to(device), self.targets.to(device))


class Split(NamedTuple):
    """Examples to learn from, and others to test on."""

    train: Examples
    test: Examples
