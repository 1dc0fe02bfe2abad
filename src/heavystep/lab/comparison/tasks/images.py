"""Tasks on CIFAR-10: Figure 3's ResNet-18, and a small vision transformer."""

from collections.abc import Iterable
from functools import cache, partial

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from heavystep.lab import data
from heavystep.lab.comparison.tasks.contract import (
    HIGHER,
    LOWER,
    Metric,
    Task,
    accuracy,
    supervised,
)
from heavystep.lab.comparison.tasks.text import Block, Shape
from heavystep.lab.data import Examples, Split
from heavystep.lab.training.images import (
    ImageWork,
    colours_of,
    epoch_plan,
    evaluated,
    images_of,
)
from heavystep.lab.training.networks import NETWORKS
from heavystep.lab.training.trainer import Measured

DATA, BATCH, EPOCHS, TRAIN = "cifar10", 256, 30, 50_000
STATISTICS = 60  # batches from which BatchNorm's statistics are estimated
SEEN, UNSEEN, LOOKED_AT = 20_000, 2_000, 2_000
"""Images that the vision transformer learns from, is tested on, and its loss is measured on."""
VIT = Shape(layers=3, heads=4, width=64, context=64, batch_size=64)
PATCH = 4


class Residual(ImageWork):
    """ResNet-18 as Figure 3 trains it; no weight decay."""

    def __init__(self, seed: int, device: torch.device) -> None:
        network, scale = NETWORKS["resnet18"](10), colours_of(DATA, TRAIN)
        super().__init__(network, images_of(DATA), scale, BATCH, seed, device)

    def evaluate(self) -> Measured:
        """The loss of all training images as they are, and the accuracy on the test images."""
        loss = evaluated(self.network, self.train).loss
        return Measured(loss, 100.0 * evaluated(self.network, self.test).metric)

    def inputs(self) -> Iterable[Tensor]:
        epoch = self.done // self.train.batches + 1
        self.train.begin(epoch_plan(self.train.count, self._seed, epoch))
        for place in range(STATISTICS):
            self.train.load(place)
            self.train.prepare()
            yield self.train.inputs


class VisionTransformer(nn.Module):
    """Logits of the classes, from patches of 4 x 4 pixels.

    Reference: A. Dosovitskiy et al. (2021), An Image is Worth 16x16 Words.
    """

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Linear(3 * PATCH**2, VIT.width)
        self.position = nn.Parameter(0.02 * torch.randn(VIT.context, VIT.width))
        self.blocks = nn.Sequential(
            *(Block(VIT, causal=False, bias=True) for _ in range(VIT.layers))
        )
        self.norm, self.head = nn.LayerNorm(VIT.width), nn.Linear(VIT.width, 10)

    def forward(self, images: Tensor) -> Tensor:
        parts = images.unfold(2, PATCH, PATCH).unfold(3, PATCH, PATCH).permute(0, 2, 3, 1, 4, 5)
        x = self.blocks(self.patch(parts.flatten(3).flatten(1, 2)) + self.position)
        logits: Tensor = self.head(self.norm(x).mean(dim=1))
        return logits


@cache
def some_images() -> Split:
    """The first images, as floating-point numbers of size 1."""
    return Split(*(
        Examples((torch.tensor(part.inputs[:n]).float() / 255.0 - 0.47) / 0.25,
                 torch.tensor(part.targets[:n]))
        for part, n in zip(images_of(DATA), (SEEN, UNSEEN), strict=True)
    ))  # fmt: skip


VISION = supervised(
    VisionTransformer, some_images, cross_entropy,
    lambda logits, classes: 100.0 - accuracy(logits, classes), VIT.batch_size, evaluated=LOOKED_AT,
)  # fmt: skip
without_images = partial(data.missing_text, [DATA])
IMAGES = (
    Task("cifar10", "ResNet-18 on CIFAR-10, 30 epochs",
         Metric("test accuracy", HIGHER, "points", 0.5), EPOCHS * (TRAIN // BATCH), Residual,
         without_images, gpu=True, seeds=1),
    Task("vit", "vision transformer on 20,000 images", Metric("test error", LOWER, "points", 1.0),
         600, VISION, without_images, seeds=1),
)  # fmt: skip
