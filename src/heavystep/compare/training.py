"""Small networks that every method can train on a CPU in a second."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from heavystep.methods import method_of
from heavystep.optimizers import create
from heavystep.records import Trajectories
from heavystep.sweeps.engines import Advance, Job
from heavystep.sweeps.runs import Runs
from heavystep.sweeps.specification import FORMAT
from heavystep.training.setup import threads_for

METRICS = ("loss", "trials")
"""The loss of all training data, and the trials of a line search since the start."""


class Examples(NamedTuple):
    """Training data."""

    inputs: Any
    """(n, d) float32."""
    targets: Any
    """(n,) int64, numbers of classes."""


@dataclass(frozen=True)
class Task:
    """A network and its data, by name."""

    name: str
    title: str
    load: Callable[[], Examples]
    widths: tuple[int, ...]
    """Of the layers of a perceptron, inputs and outputs among them."""
    version: int = 1
    """To be raised when data or network change; part of the key of stored runs."""

    def build(self) -> Examples:
        """The data, for the jobs of an engine."""
        return self.load()


def _digits() -> Examples:
    from sklearn.datasets import load_digits

    digits = load_digits()
    return Examples((digits.data / 16.0).astype(np.float32), digits.target.astype(np.int64))


TASKS = {
    task.name: task
    for task in (
        Task("digits", "digits, perceptron 64-128-64-10", _digits, (64, 128, 64, 10)),
    )
}  # fmt: skip


def perceptron(widths: tuple[int, ...], stream: torch.Generator) -> nn.Module:
    """Layers with relu between them; the weights come from ``stream`` alone.

    Args:
        widths: of the layers, inputs and outputs among them.
        stream: random numbers. Torch's own stream is shared by all threads.
    """
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layer, bound = nn.Linear(before, after), before**-0.5
        with torch.no_grad():
            for tensor in layer.parameters():
                tensor.uniform_(-bound, bound, generator=stream)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


@dataclass(frozen=True)
class TrainedRuns(Runs):
    """Runs of a method that trains a network."""

    task: Task
    method: str
    options: tuple[tuple[str, Any], ...]
    """Those that differ from the defaults."""
    seeds: int
    iterations: int
    batch_size: int
    label: str = field(default="", compare=False)

    def content(self) -> dict[str, Any]:
        """The full specification, without the label."""
        method = method_of(self.method)
        options = method.complete(dict(self.options))
        return {
            "format": FORMAT,
            "task": self.task.name,
            "method": {"name": self.method, "options": options},
            "versions": {**method.chosen(options).versions(), "task": self.task.version},
            "seeds": self.seeds,
            "iterations": self.iterations,
            "batch_size": self.batch_size,
        }

    def metric_names(self) -> tuple[str, ...]:
        """What is recorded."""
        return METRICS

    def job(self, seeds: tuple[int, ...]) -> Job:
        """The run of one seed."""
        (seed,) = seeds
        size = (self.task.widths, self.iterations, self.batch_size)
        arguments = (self.method, dict(self.options), seed, *size)
        return Job(self.label, train, arguments, self.iterations, self.task)


def train(
    data: Examples,
    method: str,
    options: Mapping[str, Any],
    seed: int,
    widths: tuple[int, ...],
    iterations: int,
    batch_size: int,
    advance: Advance,
) -> Trajectories:
    """Train a perceptron from one seed: the job of an engine.

    The full loss is recorded before the first step, after each epoch and at the end; evaluation is
    not timed. A run whose loss is no longer finite stops, and the rest of it is NaN.

    Args:
        data: to learn from.
        method: its name.
        options: those that differ from the defaults.
        seed: of the weights and of the order of the examples.
        widths: of the layers.
        iterations: steps of the run.
        batch_size: examples in a step.
        advance: told how many steps were taken since the last call.
    """
    with threads_for("small"):
        stream = torch.Generator().manual_seed(seed)
        network = perceptron(widths, stream)
        batches = len(data.targets) // batch_size
        k = np.append(np.arange(0, iterations, batches), iterations)
        run = _Training(data, network, create(method, network.parameters(), **options))
        records = np.full((len(k), len(METRICS)), np.nan)
        records[0] = run.record()
        for row, count in enumerate(np.diff(k), start=1):
            order = torch.randperm(len(data.targets), generator=stream)
            run.go(order[: count * batch_size].view(int(count), batch_size))
            records[row] = run.record()
            advance(float(count))
            if not np.isfinite(records[row, 0]):
                break
    metrics = {name: records[None, :, place] for place, name in enumerate(METRICS)}
    return Trajectories(k, (seed,), metrics, (run.seconds,))


class _Training:
    """A network in training."""

    def __init__(self, data: Examples, network: nn.Module, optimizer: Any) -> None:
        self._inputs, self._targets = map(torch.from_numpy, data)
        self._network, self._optimizer = network, optimizer
        self._trials = 0
        self.seconds = 0.0

    def go(self, batches: Tensor) -> None:
        """Take a step on each of the batches."""
        begin = time.perf_counter()
        for batch in batches:
            inputs, targets = self._inputs[batch], self._targets[batch]

            def closure(inputs: Tensor = inputs, targets: Tensor = targets) -> Tensor:
                return cross_entropy(self._network(inputs), targets)

            self._optimizer.step(closure)
            self._trials += int(self._optimizer.info.trials)
        self.seconds += time.perf_counter() - begin

    @torch.no_grad()
    def record(self) -> tuple[float, float]:
        """The metrics now."""
        loss = cross_entropy(self._network(self._inputs), self._targets)
        return float(loss), float(self._trials)
