"""Diffusion with nothing set: a small U-Net takes noise away from digits, told which digit it is.

``python examples/diffusion.py`` prints a table (``--quick`` for short runs). As scripts for text to
image do, it trains the U-Net and the text encoder in two groups; one step size serves both. Their
clipping (``max_grad_norm=1``) is left out: with it HeavyStep warns once, and says why.
"""

import argparse
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import torch
from parts import RIVALS, Rival, evaluating, row
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import mse_loss, silu
from torch.nn.utils import clip_grad_norm_
from torch.optim import AdamW

from heavystep import HeavyStep

WIDTH, LEVELS = 32, 100
REMAINING = torch.cos(torch.linspace(0.0, 1.5, LEVELS)) ** 2
"""How much of the image is left at each level of noise."""


class Text(nn.Module):
    """The encoder of prompts; here a prompt is a digit."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Embedding(10, WIDTH), nn.Linear(WIDTH, WIDTH), nn.SiLU())

    def forward(self, prompt: Tensor) -> Tensor:
        found: Tensor = self.net(prompt)
        return found


class Residual(nn.Module):
    """Two convolutions, between which the level of noise and the text are added."""

    def __init__(self, before: int, after: int, stride: int = 1) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, padding=1)
        self.second = nn.Conv2d(after, after, 3, padding=1)
        self.told, self.norm = nn.Linear(WIDTH, after), nn.GroupNorm(4, after)
        self.past = nn.Conv2d(before, after, 1, stride)

    def forward(self, x: Tensor, told: Tensor) -> Tensor:
        inside = self.norm(self.first(x)) + self.told(told)[:, :, None, None]
        result: Tensor = self.past(x) + self.second(silu(inside))
        return result


class UNet(nn.Module):
    """Down to 4 x 4 pixels and up again, with a way past."""

    def __init__(self) -> None:
        super().__init__()
        self.level = nn.Sequential(nn.Embedding(LEVELS, WIDTH), nn.Linear(WIDTH, WIDTH), nn.SiLU())
        self.down, self.deep = Residual(1, WIDTH), Residual(WIDTH, 2 * WIDTH, stride=2)
        self.up, self.last = Residual(3 * WIDTH, WIDTH), nn.Conv2d(WIDTH, 1, 3, padding=1)

    def forward(self, noisy: Tensor, level: Tensor, text: Tensor) -> Tensor:
        told = self.level(level) + text
        wide = self.down(noisy, told)
        deep = self.deep(wide, told).repeat_interleave(2, 2).repeat_interleave(2, 3)
        result: Tensor = self.last(self.up(torch.cat([wide, deep], dim=1), told))
        return result


def loss_of(unet: UNet, text: Text, images: Tensor, prompts: Tensor) -> Tensor:
    level = torch.randint(LEVELS, (len(images),))
    noise, left = torch.randn_like(images), REMAINING[level][:, None, None, None]
    noisy = left.sqrt() * images + (1 - left).sqrt() * noise
    return mse_loss(unet(noisy, level, text(prompts)), noise)


def train(rival: Rival, steps: int, clip: float = 0.0) -> float:
    """The error on images that were not seen, with noise that is the same for all."""
    torch.manual_seed(0)
    digits = load_digits()
    x = torch.tensor(digits.images[:, None] / 8 - 1, dtype=torch.float32)
    y = torch.tensor(digits.target)
    unet, text = UNet(), Text()
    params = [*unet.parameters(), *text.parameters()]
    optimizer: Any = rival.optimizer([{"params": unet.parameters()}, {"params": text.parameters()}])
    for _ in range(steps):
        rows = torch.randint(1500, (64,))
        optimizer.zero_grad()
        loss = loss_of(unet, text, x[rows], y[rows])
        loss.backward()
        if clip:
            clip_grad_norm_(params, clip)
        optimizer.step(**({"loss": loss} if rival.make is HeavyStep else {}))
    torch.manual_seed(1)
    with torch.no_grad(), evaluating(optimizer):
        return fmean(loss_of(unet, text, x[1500:], y[1500:]).item() for _ in range(20))


def main(words: Sequence[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description="A small diffusion model, nothing set.")
    parser.add_argument("--quick", action="store_true", help="short runs")
    steps = 60 if parser.parse_args(words).quick else 1000
    torch.set_num_threads(1)  # the network is tiny
    rivals = {"AdamW, lr=1e-4 of scripts": Rival(AdamW, 1e-4)} | RIVALS
    del rivals["AdamW, schedule"]
    found = {name: train(rival, steps) for name, rival in rivals.items()}
    row("steps", *found)
    row("---", *["---"] * len(found))
    row(str(steps), *found.values())
    return found


if __name__ == "__main__":
    main()
