"""ResNet-18 on CIFAR-10, 30 epochs as in Figure 3: crops and flips, no weight decay."""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from heavystep.bench.tasks.contract import HIGHER, Measured, Metric, Size, Task, Work
from heavystep.data.cifar import CIFAR, missing_text
from heavystep.training.images import DeviceImages, epoch_plan
from heavystep.training.resnet import NETWORKS
from heavystep.training.setup import colours_of, images_of
from heavystep.training.trainer import TEST_BATCH, autocast_logits, evaluated

DATA, NETWORK, BATCH, EPOCHS = "cifar10", "resnet18", 256, 30
TRAIN = sum(file.images for file in CIFAR[DATA].train)
STATISTICS = 60
"""Batches from which BatchNorm's statistics are estimated."""


class Residual(Work):
    """Images on the device, cropped and flipped there."""

    def __init__(self, seed: int, device: torch.device) -> None:
        super().__init__(NETWORKS[NETWORK](CIFAR[DATA].classes), device)
        if device.type == "cuda":
            self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        images, scale = images_of(DATA), colours_of(DATA, TRAIN)
        self._train = DeviceImages(*images.train, scale, BATCH, device)
        self._test = DeviceImages(*images.test, scale, TEST_BATCH, device)
        self._seed, self._done = seed, 0

    def next(self) -> None:
        """Choose the images of the next batch."""
        epoch, place = divmod(self._done, self._train.batches)
        if place == 0:
            self._train.begin(epoch_plan(self._train.count, self._seed, epoch + 1))
        self._train.load(place)
        self._done += 1

    def prepare(self) -> None:
        """Crop, flip and normalise them."""
        self._train.prepare()

    def loss(self) -> Tensor:
        """The mean cross-entropy of the batch."""
        logits = autocast_logits(self.forward, self._train.inputs)
        return cross_entropy(logits, self._train.targets)

    def evaluate(self) -> Measured:
        """The loss of all training images as they are, and the accuracy on the test images."""
        loss, _ = evaluated(self.network, self._train)
        _, accuracy = evaluated(self.network, self._test)
        return Measured(loss, 100.0 * accuracy)

    def inputs(self) -> Iterable[Tensor]:
        """Crops of the next epoch."""
        epoch = self._done // self._train.batches + 1
        self._train.begin(epoch_plan(self._train.count, self._seed, epoch))
        for place in range(STATISTICS):
            self._train.load(place)
            self._train.prepare()
            yield self._train.inputs


def residual(seed: int, device: torch.device, size: Size) -> Work:
    """The network before its first step."""
    return Residual(seed, device)


def without_images() -> str:
    """One line if the images are not here, or nothing."""
    return missing_text([DATA])


ACCURACY = Metric("test accuracy", HIGHER, "points", 0.5)
IMAGES = (
    Task("cifar10", "ResNet-18 on CIFAR-10, 30 epochs", ACCURACY,
         Size(EPOCHS * (TRAIN // BATCH)), Size(10), residual, without_images, gpu=True),
)  # fmt: skip
