"""ResNet-18 on CIFAR-10 with nothing set but a little weight decay.

``python examples/cifar_resnet.py`` wants the data (``heavystep data fetch cifar10``) and a GPU;
``--quick`` trains a small network on images that are made up, on any machine. The trainer of the
paper's Figure 3 (``heavystep.lab.training``) is faster, and crops every image for itself.
"""

import argparse
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad

from heavystep import HeavyStep
from heavystep.lab.data import load_cifar
from heavystep.lab.training.networks import ResNet


def made_up(count: int) -> tuple[Tensor, Tensor]:
    """Images whose colour tells their class, and noise."""
    labels = torch.arange(count) % 10
    colours = torch.randn(10, 3, 1, 1)
    return colours[labels] + 0.3 * torch.randn(count, 3, 32, 32), labels


def published() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training and test images in units of their deviation, with labels."""
    found = load_cifar("cifar10")
    mean, deviation = (
        torch.tensor(getattr(found.train.inputs, name)(axis=(0, 2, 3)), dtype=torch.float32)
        for name in ("mean", "std")
    )

    def scaled(images: np.ndarray) -> Tensor:
        return (torch.tensor(images).float() - mean.view(3, 1, 1)) / deviation.view(3, 1, 1)

    return (
        scaled(found.train.inputs),
        torch.tensor(found.train.targets),
        scaled(found.test.inputs),
        torch.tensor(found.test.targets),
    )


def augmented(x: Tensor) -> Tensor:
    """One crop and one flip for the batch."""
    top, left = torch.randint(9, (2,)).tolist()
    x = pad(x, (4, 4, 4, 4))[..., top : top + 32, left : left + 32]
    return x.flip(-1) if torch.rand(()) < 0.5 else x


def main(words: Sequence[str] | None = None) -> tuple[float, float]:
    parser = argparse.ArgumentParser(description="ResNet-18 on CIFAR-10, nothing set.")
    parser.add_argument("--quick", action="store_true", help="made-up images, some steps")
    parser.add_argument("--epochs", type=int, help="30 by default, 15 in the quick mode")
    arguments = parser.parse_args(words)
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if arguments.quick:
        (x, y), batch, epochs = made_up(160), 16, 15
        x_test, y_test, net = x, y, ResNet(10, (8, 16), blocks=1)
    else:
        (x, y, x_test, y_test), batch, epochs = published(), 256, 30
        net = ResNet(10, (64, 128, 256, 512), blocks=2)
    x, y, net = x.to(device), y.to(device), net.to(device)
    opt = HeavyStep(net.parameters(), weight_decay=0.1)
    for epoch in range(arguments.epochs or epochs):
        for rows in torch.randperm(len(x), device=device)[: len(x) // batch * batch].split(batch):
            opt.zero_grad()
            loss = cross_entropy(net(augmented(x[rows])), y[rows])
            loss.backward()
            opt.step(loss=loss)
        assert opt.info is not None
        print(f"epoch {epoch}: loss {loss.item():.3f}, step {float(opt.info.step):.3f}")
    net.eval()
    with torch.no_grad():
        guesses = torch.cat([net(part.to(device)).argmax(1).cpu() for part in x_test.split(500)])
    accuracy = float((guesses == y_test).float().mean())
    print(f"accuracy {accuracy:.1%}")
    return loss.item(), accuracy


if __name__ == "__main__":
    main()
