"""Residual networks for images of 32 x 32: a 3x3 stem, no max-pool, BatchNorm.

Reference: K. He, X. Zhang, S. Ren, J. Sun (2016), Deep Residual Learning for Image Recognition;
Section 4.2 for small images.
"""

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn.functional import relu


def _convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Conv2d:
    # BatchNorm follows, which takes every constant out again.
    return nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)


class Block(nn.Module):
    """relu(x + BN(conv(relu(BN(conv(x))))))."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Sequential(
            _convolution(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
        )
        self.second = nn.Sequential(_convolution(outputs, outputs, 3), nn.BatchNorm2d(outputs))
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                _convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        residual = self.second(relu(self.first(x), inplace=True))
        return relu(residual + self.shortcut(x), inplace=True)


class ResNet(nn.Module):
    """Stages of residual blocks; each but the first halves height and width.

    Args:
        classes: number of classes.
        widths: number of channels of each stage.
        blocks: number of blocks in each stage.
    """

    def __init__(self, classes: int, widths: tuple[int, ...], blocks: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(_convolution(3, widths[0], 3), nn.BatchNorm2d(widths[0]))
        stages, before = [], widths[0]
        for stage, width in enumerate(widths):
            for block in range(blocks):
                stages.append(Block(before, width, stride=2 if stage and not block else 1))
                before = width
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(before, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        features = self.stages(relu(self.stem(images), inplace=True))
        logits: Tensor = self.head(features.mean(dim=(2, 3)))
        return logits


NETWORKS: dict[str, Callable[[int], nn.Module]] = {
    "resnet18": lambda classes: ResNet(classes, widths=(64, 128, 256, 512), blocks=2),
    "small": lambda classes: ResNet(classes, widths=(8, 16, 32), blocks=1),
}
"""Functions by name that make a network from the number of classes."""
