"""Evaluate a closure several times as if once: same random numbers, same buffers.

A line search calls the closure again at trial points. Dropout must then draw the mask
of the first evaluation, and BatchNorm must not see the batch twice.
"""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from heavystep.optim.vectors import indices_by_dtype


class RandomStreams:
    """The random-number generators of the CPU and of each accelerator that may be in use."""

    def __init__(self, device: torch.device) -> None:
        # All devices of the kind: a forward may use others than the parameters'.
        count = 0 if device.type == "cpu" else torch.get_device_module(device).device_count()
        self._devices = [torch.device(device.type, index) for index in range(count)]

    def state(self) -> list[Tensor]:
        """Where the streams are now."""
        modules = [(torch.get_device_module(device.type), device) for device in self._devices]
        return [torch.get_rng_state(), *(module.get_rng_state(at) for module, at in modules)]

    def restore(self, state: list[Tensor]) -> None:
        """Put the streams where they were."""
        cpu, *others = state
        torch.set_rng_state(cpu)
        for device, other in zip(self._devices, others, strict=True):
            torch.get_device_module(device.type).set_rng_state(other, device)


class Snapshot(NamedTuple):
    """States of random streams, and buffer values."""

    streams: list[Tensor]
    buffers: list[Tensor]


class Replay:
    """Random streams and ``buffers`` before the first evaluation and after it.

    Create it before the first evaluation, call :meth:`first_done` right after it,
    :meth:`rewind` before each further one and :meth:`finish` at the end, when everything
    is as the first evaluation left it.
    """

    def __init__(self, device: torch.device, buffers: Iterable[Tensor]) -> None:
        self._buffers = list(buffers)
        self._streams = RandomStreams(device)
        self._before = self._snapshot()
        self._after = self._before

    def first_done(self) -> None:
        """Remember the state that one forward and backward leave."""
        self._after = self._snapshot()

    def rewind(self) -> None:
        """Back to before the first evaluation."""
        self._restore(self._before)

    def finish(self) -> None:
        """Forward to after the first evaluation."""
        self._restore(self._after)

    def forget_buffers(self) -> None:
        """Buffers back to before the first evaluation; random streams stay."""
        put_back(self._buffers, self._before.buffers)

    def _snapshot(self) -> Snapshot:
        return Snapshot(
            self._streams.state(), [buffer.detach().clone() for buffer in self._buffers]
        )

    def _restore(self, snapshot: Snapshot) -> None:
        self._streams.restore(snapshot.streams)
        put_back(self._buffers, snapshot.buffers)


def put_back(tensors: list[Tensor], values: list[Tensor]) -> None:
    """Give tensors, of which there may be none, their former values."""
    # A list of mixed formats, as BatchNorm's buffers are, would be copied one by one.
    for indices in indices_by_dtype(tensors):
        torch._foreach_copy_([tensors[i] for i in indices], [values[i] for i in indices])
