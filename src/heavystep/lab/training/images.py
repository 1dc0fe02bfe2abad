"""Images that live on the device, and minibatches of them, which are cropped and flipped there."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from heavystep.arrays import Array

PADDING = 4
"""The width of the black border around an image. A crop has the size of the image itself."""


class Colours(NamedTuple):
    """Mean and standard deviation of each colour, in 0..255."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]


def colours(images: Array) -> Colours:
    """The colours of all pixels. They are exact, because sums of whole numbers do not round.

    Args:
        images: (n, 3, height, width) uint8.

    >>> colours(np.array([0, 4], dtype=np.uint8).reshape(2, 1, 1, 1))
    Colours(mean=(2.0,), deviation=(2.0,))
    """
    counts = [np.bincount(images[:, c].reshape(-1), minlength=256) for c in range(images.shape[1])]
    levels = np.arange(256.0)
    mean = [float(count @ levels / count.sum()) for count in counts]
    spread = [
        float(np.sqrt(count @ (levels - middle) ** 2 / count.sum()))
        for count, middle in zip(counts, mean, strict=True)
    ]
    return Colours(tuple(mean), tuple(spread))


def epoch_plan(images: int, seed: int, epoch: int) -> Array:
    """(4, images) plan of an epoch: for each place an image, then row, column and flip of its crop.

    It depends on seed and epoch alone, so that a run can go on from any point.

    Args:
        images: how many there are.
        seed: that of the run.
        epoch: its number; the first one is 1.
    """
    generator = np.random.default_rng([seed, epoch])
    crops = generator.integers(0, 2 * PADDING + 1, (2, images))
    flips = generator.integers(0, 2, (1, images))
    return np.concatenate([generator.permutation(images)[None], crops, flips])


def whole_plan(images: int) -> Array:
    """The plan that takes all images in order, as they are.

    Args:
        images: how many there are.
    """
    plan = np.full((4, images), PADDING)
    plan[0], plan[3] = np.arange(images), 0
    return plan


class DeviceImages:
    """Images and labels on a device, and one minibatch of them in memory that stays in place.

    Call :meth:`begin` with the plan of an epoch, then for each minibatch :meth:`load` and
    :meth:`prepare`, which can be part of a CUDA graph; ``inputs`` and ``targets`` then hold it.

    Args:
        images: (n, 3, height, width) uint8.
        labels: (n,) int64.
        scale: mean and deviation by which images are normalised.
        batch_size: images in a minibatch, at most n.
        device: where they live.
    """

    inputs: Tensor
    """(batch_size, 3, height, width) float32; on a GPU with the colours innermost in memory."""
    targets: Tensor
    """(batch_size,) int64."""

    def __init__(
        self, images: Array, labels: Array, scale: Colours, batch_size: int, device: torch.device
    ) -> None:
        edges = ((0, 0), (PADDING, PADDING), (PADDING, PADDING), (0, 0))
        padded = np.pad(images.transpose(0, 2, 3, 1), edges)
        self._padded = torch.from_numpy(padded).to(device)
        self._labels = torch.from_numpy(labels).to(device)
        self._mean, self._deviation = (
            torch.tensor(part, dtype=torch.float32, device=device) for part in scale
        )
        _, _, height, width = images.shape
        self._down, self._across = (torch.arange(size, device=device) for size in (height, width))
        self._plan = torch.zeros((4, len(images)), dtype=torch.int64, device=device)
        self._batch = torch.zeros((4, batch_size), dtype=torch.int64, device=device)
        self.device, self.count, self.batch_size = device, len(images), batch_size

    @property
    def batches(self) -> int:
        """The number of whole minibatches in an epoch; an incomplete one is dropped."""
        return self.count // self.batch_size

    def begin(self, plan: Array) -> None:
        """Set the order and the crops of an epoch."""
        self._plan.copy_(torch.from_numpy(plan))

    def load(self, k: int) -> None:
        """Choose minibatch ``k`` of the epoch."""
        self._batch.copy_(self._plan[:, k * self.batch_size : (k + 1) * self.batch_size])

    def prepare(self) -> None:
        """Crop, flip and normalise the minibatch that was chosen."""
        self.inputs, self.targets = self.batch(self._batch)

    def batch(self, plan: Tensor) -> tuple[Tensor, Tensor]:
        """Images and labels by (4, m) columns of a plan, cropped, flipped and normalised."""
        which, top, left, flip = plan
        rows = top[:, None] + self._down
        mirrored = torch.where(flip[:, None] == 1, self._across.flip(0), self._across)
        columns = left[:, None] + mirrored
        pixels = self._padded[which[:, None, None], rows[:, :, None], columns[:, None, :]]
        inputs = ((pixels - self._mean) / self._deviation).permute(0, 3, 1, 2)
        inputs = inputs if self.device.type == "cuda" else inputs.contiguous()
        return inputs, self._labels[which]

    def in_order(self) -> Iterator[tuple[Tensor, Tensor]]:
        """All images as they are, in parts of the size of a minibatch."""
        plan = torch.from_numpy(whole_plan(self.count)).to(self.device)
        return (self.batch(part) for part in torch.split(plan, self.batch_size, dim=1))
