"""Train one small network on scikit-learn's digits with every method, and compare.

Run with ``make demo``, or ``python examples/digits.py --epochs 20 --seeds 1``. First our methods
with nothing set, then those of the paper with its constants. Fixed-step SHB is shown at the four
steps of the paper's sweep, so that the price of choosing one can be seen.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from statistics import fmean

import torch
from parts import row
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from heavystep import SHB, SLS, SPS, HeavyStep, SHBArmijo, SHBPolyak, create, paper_settings
from heavystep.optim import RuleOptimizer

BATCH, TRAINED = 64, 1500
STEPS = TRAINED // BATCH
"""Of an epoch."""
Make = Callable[[nn.Module], RuleOptimizer]


def fixed_step(lr: float) -> Make:
    return lambda net: SHB(net.parameters(), lr=lr)


def paper_search(net: nn.Module) -> RuleOptimizer:
    settings = paper_settings("SHBArmijo", steps_per_epoch=STEPS)
    return SHBArmijo(net.parameters(), lower_bound=0.0, buffers=net.buffers(), **settings)


METHODS: dict[str, Make] = {
    "HeavyStep": lambda net: HeavyStep(net.parameters()),
    "SHBPolyak": lambda net: SHBPolyak(net.parameters()),
    "SHBArmijo": lambda net: SHBArmijo(net.parameters(), buffers=net.buffers()),
    "SHBPolyak, paper": lambda net: create(
        "SHBPolyak", net.parameters(), **paper_settings("SHBPolyak", steps_per_epoch=STEPS)
    ),
    "SHBArmijo, paper": paper_search,
    "SPS": lambda net: SPS(net.parameters(), steps_per_epoch=STEPS),
    "SLS": lambda net: SLS(
        net.parameters(), steps_per_epoch=STEPS, lower_bound=0.0, buffers=net.buffers()
    ),
    **{f"SHB, lr={lr:g}": fixed_step(lr) for lr in (1e-4, 1e-3, 1e-2, 1e-1)},
}


def train(make: Make, x: Tensor, y: Tensor, epochs: int, seed: int) -> tuple[float, ...]:
    """Training loss, accuracy, the mean step, forwards a step and seconds."""
    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(),
        nn.Linear(64, 10),
    )  # fmt: skip
    opt = make(net)
    forwards, steps, start = [], [], time.perf_counter()
    for _ in range(epochs):
        for rows in torch.randperm(TRAINED)[: STEPS * BATCH].view(-1, BATCH):

            def closure(rows: Tensor = rows) -> Tensor:
                return cross_entropy(net(x[rows]), y[rows])

            opt.step(closure)
            assert opt.info is not None
            forwards.append(1 + opt.info.trials)
            steps.append(float(opt.info.step))
    seconds = time.perf_counter() - start
    net.eval()
    with torch.no_grad():
        loss = cross_entropy(net(x[:TRAINED]), y[:TRAINED]).item()
        accuracy = (net(x[TRAINED:]).argmax(1) == y[TRAINED:]).float().mean().item()
    return loss, accuracy, fmean(steps), fmean(forwards), seconds


def main(words: Sequence[str] | None = None) -> dict[str, tuple[float, ...]]:
    parser = argparse.ArgumentParser(description="Every method on scikit-learn's digits.")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one epoch, one seed")
    arguments = parser.parse_args(words)
    epochs, seeds = (1, 1) if arguments.quick else (arguments.epochs, arguments.seeds)
    torch.set_num_threads(1)  # the network is tiny: a second thread costs more than it brings
    digits = load_digits()
    order = torch.randperm(len(digits.data), generator=torch.Generator().manual_seed(0))
    x = torch.tensor(digits.data / 16.0, dtype=torch.float32)[order]
    y = torch.tensor(digits.target)[order]
    found = {}
    row("method", "training loss", "test accuracy", "mean step", "forwards a step", "seconds")
    row("---", *["---"] * 5)
    for name, make in METHODS.items():
        runs = [train(make, x, y, epochs, seed) for seed in range(seeds)]
        found[name] = tuple(fmean(each) for each in zip(*runs, strict=True))
        row(name, *(f"{each:.3g}" for each in found[name]))
    return found


if __name__ == "__main__":
    main()
