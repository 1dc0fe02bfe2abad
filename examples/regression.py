"""Regression with noise that stays: heavy ball wanders, its average does not, nor does the default.

``python examples/regression.py`` (``--quick`` for a short run). The error is to the clean
function, which a user would not know.
"""

import argparse
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from heavystep import Average, HeavyStep, SHBPolyak, paper_settings
from heavystep.optim import RuleOptimizer

BATCH = 16


def data() -> tuple[Tensor, Tensor, Tensor]:
    """Inputs, noisy targets and clean ones."""
    stream = torch.Generator().manual_seed(0)
    x = torch.rand(512, 1, generator=stream) * 4 - 2
    clean = torch.sin(3 * x) + 0.5 * x
    return x, clean + 0.5 * torch.randn(clean.shape, generator=stream), clean


def train(make: type[RuleOptimizer], steps: int, **options: Any) -> tuple[float, float]:
    """The error of the last iterate and of the average."""
    torch.manual_seed(0)
    x, y, clean = data()
    net = nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 1))
    opt = make(net.parameters(), **options)
    average = Average(opt)
    for _ in range(steps):
        rows = torch.randint(len(x), (BATCH,))
        opt.zero_grad()
        loss = mse_loss(net(x[rows]), y[rows])
        loss.backward()
        opt.step(loss=loss)
    with torch.no_grad():
        last = mse_loss(net(x), clean).item()
        with average.in_place():
            return last, mse_loss(net(x), clean).item()


def main(words: Sequence[str] | None = None) -> tuple[float, float, float]:
    parser = argparse.ArgumentParser(description="Regression with noise that stays.")
    parser.add_argument("--quick", action="store_true", help="fewer steps")
    steps = 2000 if parser.parse_args(words).quick else 4000
    paper = paper_settings("SHBPolyak", steps_per_epoch=512 // BATCH)
    wandering, averaged = train(SHBPolyak, steps, **paper)
    calm, _ = train(HeavyStep, steps)
    print(f"error with the paper's rule: last iterate {wandering:.4f}, average {averaged:.4f}")
    print(f"error with nothing set: last iterate {calm:.4f}")
    return wandering, averaged, calm


if __name__ == "__main__":
    main()
