"""Train one small network on scikit-learn's digits with every method, and compare.

Run with ``make demo``, or ``python examples/digits.py --epochs 20 --seeds 1``. First our methods
with nothing set, then those of the paper with its constants. Fixed-step SHB is shown at the four
steps of the paper's sweep, so that the price of choosing one can be seen.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import mean

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from heavystep import SHB, SLS, SPS, HeavyStep, SHBArmijo, SHBPolyak, create, paper_settings
from heavystep.optim import RuleOptimizer

BATCH = 64
Make = Callable[[nn.Module, int], RuleOptimizer]


def fixed_step(lr: float) -> Make:
    return lambda net, _: SHB(net.parameters(), lr=lr)


def paper(name: str) -> Make:
    return lambda net, n_b: create(
        name, net.parameters(), **paper_settings(name, steps_per_epoch=n_b)
    )


def paper_search(net: nn.Module, n_b: int) -> RuleOptimizer:
    settings = paper_settings("SHBArmijo", steps_per_epoch=n_b)
    return SHBArmijo(net.parameters(), lower_bound=0.0, buffers=net.buffers(), **settings)


METHODS: dict[str, Make] = {
    "HeavyStep": lambda net, _: HeavyStep(net.parameters()),
    "SHBPolyak": lambda net, _: SHBPolyak(net.parameters()),
    "SHBArmijo": lambda net, _: SHBArmijo(net.parameters(), buffers=net.buffers()),
    "SHBPolyak, paper": paper("SHBPolyak"),
    "SHBArmijo, paper": paper_search,
    "SPS": lambda net, n_b: SPS(net.parameters(), steps_per_epoch=n_b),
    "SLS": lambda net, n_b: SLS(
        net.parameters(), steps_per_epoch=n_b, lower_bound=0.0, buffers=net.buffers()
    ),
    **{f"SHB, lr={lr:g}": fixed_step(lr) for lr in (1e-4, 1e-3, 1e-2, 1e-1)},
}


@dataclass
class Data:
    """Images in [0, 1] and labels, for training and for testing."""

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor


@dataclass
class Run:
    """What one training run came to."""

    loss: float
    accuracy: float
    step: float
    forwards: float
    seconds: float


def load() -> Data:
    digits = load_digits()
    x = torch.tensor(digits.data / 16.0, dtype=torch.float32)
    y = torch.tensor(digits.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    train, test = order[:1500], order[1500:]
    return Data(x[train], y[train], x[test], y[test])


def make_net(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(),
        nn.Linear(64, 10),
    )  # fmt: skip


def train(make: Make, data: Data, epochs: int, seed: int, tick: Callable[[], None]) -> Run:
    net = make_net(seed)
    steps_per_epoch = len(data.x) // BATCH
    opt = make(net, steps_per_epoch)
    forwards, steps = 0, []
    start = time.perf_counter()
    for _ in range(epochs):
        for batch in torch.randperm(len(data.x))[: steps_per_epoch * BATCH].view(-1, BATCH):
            x, y = data.x[batch], data.y[batch]

            def closure(x: Tensor = x, y: Tensor = y) -> Tensor:
                return cross_entropy(net(x), y)

            opt.step(closure)
            assert opt.info is not None
            forwards += 1 + opt.info.trials
            steps.append(float(opt.info.step))
        tick()
    seconds = time.perf_counter() - start
    net.eval()
    with torch.no_grad():
        loss = cross_entropy(net(data.x), data.y).item()
        accuracy = (net(data.x_test).argmax(1) == data.y_test).float().mean().item()
    per_step = forwards / (epochs * steps_per_epoch)
    return Run(loss, accuracy, mean(steps), per_step, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description="Every method on scikit-learn's digits.")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.epochs < 1 or arguments.seeds < 1:
        parser.error("--epochs and --seeds must be at least 1")
    # The network is tiny: a second thread costs more than it brings.
    torch.set_num_threads(1)
    console, data = Console(), load()
    results: dict[str, list[Run]] = {}
    columns = (TextColumn("{task.description:18s}"), BarColumn(), MofNCompleteColumn(),
               TextColumn("epochs"), TimeRemainingColumn())  # fmt: skip
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=len(METHODS) * arguments.seeds * arguments.epochs)
        for name, make in METHODS.items():
            progress.update(task, description=name)
            results[name] = [
                train(make, data, arguments.epochs, seed, lambda: progress.advance(task))
                for seed in range(arguments.seeds)
            ]
    table = Table(
        title=f"Digits, {arguments.epochs} epochs, mean over {arguments.seeds} seeds",
        caption="step: mean over all steps; forwards: loss evaluations a step",
    )
    for column in ("method", "train loss", "test acc.", "step", "forwards", "seconds"):
        table.add_column(column, justify="left" if column == "method" else "right", no_wrap=True)
    for name, runs in results.items():
        table.add_row(
            name,
            f"{mean(r.loss for r in runs):.2e}",
            f"{100 * mean(r.accuracy for r in runs):.1f}%",
            f"{mean(r.step for r in runs):.3g}",
            f"{mean(r.forwards for r in runs):.2f}",
            f"{mean(r.seconds for r in runs):.2f}",
        )
    console.print(table)


if __name__ == "__main__":
    main()
