"""Training on images that live on the device, in minibatches that are cropped and flipped there."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from heavystep.arrays import Array
from heavystep.lab.data import Split, load_cifar
from heavystep.lab.training.trainer import Measured, Work

PADDING = 4
"""The width of the black border around an image. A crop has the size of the image itself."""
TEST_BATCH = 1000


class Colours(NamedTuple):
    """Mean and standard deviation of each colour, in 0..255."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]


def colours(images: Array) -> Colours:
    """The colours of all pixels of (n, 3, height, width) uint8 images; the sums do not round.

    >>> colours(np.array([0, 4], dtype=np.uint8).reshape(2, 1, 1, 1))
    Colours(mean=(2.0,), deviation=(2.0,))
    """
    levels, found = np.arange(256.0), []
    for colour in range(images.shape[1]):
        count = np.bincount(images[:, colour].reshape(-1), minlength=256)
        mean = float(count @ levels / count.sum())
        found.append((mean, float(np.sqrt(count @ (levels - mean) ** 2 / count.sum()))))
    return Colours(*zip(*found, strict=True))


@cache
def images_of(data_set: str) -> Split:
    """The images of a data set, which are read and checked once."""
    try:
        return load_cifar(data_set)
    except FileNotFoundError as error:
        raise ValueError(error.strerror) from None


@cache
def colours_of(data_set: str, images: int) -> Colours:
    """The colours of the first training images, which are the same for every run."""
    return colours(images_of(data_set).train.inputs[:images])


def epoch_plan(images: int, seed: int, epoch: int) -> Array:
    """(4, images) plan of an epoch: for each place an image, then row, column and flip of its crop.

    It depends on seed and epoch (the first one is 1) alone: a run can go on from any point.
    """
    generator = np.random.default_rng([seed, epoch])
    crops = generator.integers(0, 2 * PADDING + 1, (2, images))
    flips = generator.integers(0, 2, (1, images))
    return np.concatenate([generator.permutation(images)[None], crops, flips])


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
    targets: Tensor  # (batch_size,) int64

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
        self._down, self._across = (torch.arange(size, device=device) for size in images.shape[2:])
        self._plan = torch.zeros((4, len(images)), dtype=torch.int64, device=device)
        self._batch = torch.zeros((4, batch_size), dtype=torch.int64, device=device)
        self.device, self.count, self.batch_size = device, len(images), batch_size
        self.batches = self.count // batch_size
        """Whole minibatches in an epoch; an incomplete one is dropped."""

    def begin(self, plan: Array) -> None:
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
        plan = np.full((4, self.count), PADDING)
        plan[0], plan[3] = np.arange(self.count), 0
        parts = torch.split(torch.from_numpy(plan).to(self.device), self.batch_size, dim=1)
        return map(self.batch, parts)


class ImageWork(Work):
    """A classifier of images, in epochs of crops and flips; a last incomplete batch is dropped.

    On a GPU the network computes in bfloat16 where autocast thinks it safe, and colours are
    innermost in memory. On a CPU everything is float32.

    Args:
        network: gives the logits of the classes.
        images: to learn from, and to test on.
        scale: mean and deviation by which images are normalised.
        batch_size: images in a step.
        seed: decides crops, flips and the order of the images.
        device: where it is trained.
    """

    def __init__(
        self, network: nn.Module, images: Split, scale: Colours, batch_size: int, seed: int,
        device: torch.device,
    ) -> None:  # fmt: skip
        super().__init__(network, device)
        if device.type == "cuda":
            self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.train = DeviceImages(*images.train, scale, batch_size, device)
        self.test = DeviceImages(*images.test, scale, TEST_BATCH, device)
        self.done = 0  # steps since the first epoch
        self._seed, self._planned = seed, -1

    def next(self) -> None:
        epoch, place = divmod(self.done, self.train.batches)
        if epoch != self._planned:
            self.train.begin(epoch_plan(self.train.count, self._seed, epoch + 1))
            self._planned = epoch
        self.train.load(place)
        self.done += 1

    def prepare(self) -> None:
        self.train.prepare()

    def loss(self) -> Tensor:
        return cross_entropy(autocast_logits(self.forward, self.train.inputs), self.train.targets)

    def evaluate(self) -> Measured:
        """The loss and the accuracy, a share, of the test images."""
        return evaluated(self.network, self.test)


def autocast_logits(network: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
    """The logits in float32; on a GPU computed in bfloat16 where autocast thinks it safe."""
    kind = inputs.device.type
    with torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
        logits = network(inputs)
    return logits.float()


def evaluated(network: nn.Module, images: DeviceImages) -> Measured:
    """The mean cross-entropy and the accuracy, a share, of images as they are."""
    sums = torch.zeros(2, dtype=torch.float64, device=images.device)
    for inputs, targets in images.in_order():
        logits = autocast_logits(network, inputs)
        right = (logits.argmax(dim=1) == targets).sum()
        sums += torch.stack((cross_entropy(logits, targets, reduction="sum"), right))
    return Measured(*(sums / images.count).tolist())
