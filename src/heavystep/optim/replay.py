"""Evaluate a closure several times as if once: same random numbers, same buffers.

A line search calls the closure again at trial points. Dropout must then draw the mask
of the first evaluation, and BatchNorm must not see the batch twice.
"""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor


class Snapshot(NamedTuple):
    """Random-number states of the CPU and of each accelerator in use, and buffer values."""

    cpu: Tensor
    devices: dict[torch.device, Tensor]
    buffers: list[Tensor]


class Replay:
    """Random streams and ``buffers`` before the first evaluation and after it.

    Create it before the first evaluation, call :meth:`first_done` right after it,
    :meth:`rewind` before each further one and :meth:`finish` at the end, when everything
    is as the first evaluation left it.
    """

    def __init__(self, device: torch.device, buffers: Iterable[Tensor]) -> None:
        self._buffers = list(buffers)
        # All devices of the kind: a forward may use others than the parameters'.
        count = 0 if device.type == "cpu" else torch.get_device_module(device).device_count()
        self._devices = [torch.device(device.type, index) for index in range(count)]
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
        self._put_back(self._before.buffers)

    def _snapshot(self) -> Snapshot:
        return Snapshot(
            torch.get_rng_state(),
            {d: torch.get_device_module(d.type).get_rng_state(d) for d in self._devices},
            [buffer.detach().clone() for buffer in self._buffers],
        )

    def _restore(self, snapshot: Snapshot) -> None:
        torch.set_rng_state(snapshot.cpu)
        for device, state in snapshot.devices.items():
            torch.get_device_module(device.type).set_rng_state(state, device)
        self._put_back(snapshot.buffers)

    def _put_back(self, values: list[Tensor]) -> None:
        if self._buffers:
            torch._foreach_copy_(self._buffers, values)
