"""A task: a network, its batches, its loss and what is measured at the end."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from heavystep.lab.training.trainer import Measured, Work
from heavystep.problems import FiniteSum

ORDER = 1000
"""Added to the seed of a run for the order of its examples, so that no network draws from it."""
LOWER, HIGHER = -1, 1  # which way a metric is better
QUICK = 5  # a quick run has a fifth of the steps: the order of methods is seen by then


@dataclass(frozen=True)
class Metric:
    """What is measured on unseen data, beside the training loss.

    Args:
        name: what tables call it.
        better: :data:`LOWER` or :data:`HIGHER`.
        unit: of differences: ``"points"``, ``"nats"``, or ``"%"`` of the better value.
        close: differences of up to so much, in this unit, are level.
    """

    name: str
    better: int
    unit: str
    close: float

    def behind(self, value: float, best: float) -> float:
        """How far a value is behind another one, in the unit; negative if it is ahead.

        >>> Metric("error", LOWER, "%", 2.0).behind(1.5, 1.0)
        50.0
        >>> Metric("accuracy", HIGHER, "points", 0.5).behind(97.0, 98.0)
        1.0
        """
        difference = self.better * (best - value)
        return 100.0 * difference / abs(best) if self.unit == "%" else difference


Build = Callable[[int, torch.device], Work]
"""Makes the work, from a seed and a device; torch's random numbers are those of the seed."""


@dataclass(frozen=True)
class Task:
    """One row of the registry.

    Args:
        name: what the command line calls it.
        title: what pages call it.
        metric: what is measured on unseen data.
        steps: the usual length of a run.
        build: makes the work.
        missing: one line about data that are not here; empty if they are.
        gpu: whether it needs a GPU to be done in a reasonable time.
        version: to be raised when data, network or batches change; part of the key of runs.
        problem: makes a problem that is simulated, without a network.
        seeds: how many runs of each are usual.
    """

    name: str
    title: str
    metric: Metric
    steps: int
    build: Build
    missing: Callable[[], str] = str
    gpu: bool = False
    version: str = "1"
    problem: Callable[[], FiniteSum] | None = None
    seeds: int = 3

    def length(self, *, quick: bool) -> int:
        return max(self.steps // QUICK, min(self.steps, 30)) if quick else self.steps

    def begun(self, seed: int, device: torch.device) -> Work:
        """The work before its first step."""
        torch.manual_seed(seed)
        work = self.build(seed, device)
        work.network.train()
        return work


class Examples(NamedTuple):
    """Inputs and what is to be learnt of them."""

    inputs: Tensor
    targets: Tensor

    def to(self, device: torch.device) -> "Examples":
        return Examples(self.inputs.to(device), self.targets.to(device))


class Split(NamedTuple):
    """Examples to learn from, and others to test on."""

    train: Examples
    test: Examples


def stream_of(seed: int) -> torch.Generator:
    """The random numbers of a run's batches."""
    return torch.Generator().manual_seed(seed + ORDER)


Score = Callable[[Any, Examples], float]


class Supervised(Work):
    """Epochs of shuffled examples; what is left of an epoch is dropped.

    Args:
        network: what is trained.
        data: to learn from and to test on.
        criterion: the loss, of outputs and targets.
        score: the metric, of the outputs on the test examples; None: the loss.
        batch_size: examples in a step.
        seed: of the order.
        device: where it is trained.
        draws: how often an evaluation is repeated and averaged, if the network draws.
        evaluated: training examples that the loss is measured on; None: all.
    """

    def __init__(
        self, network: nn.Module, data: Split, criterion: Callable[[Any, Tensor], Tensor],
        score: Score | None, batch_size: int, seed: int, device: torch.device,
        draws: int = 1, evaluated: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(network, device)
        self.train, self.test = (part.to(device) for part in data)
        self._criterion, self._draws = criterion, draws
        self._score = score or (lambda out, test: float(criterion(out, test.targets)))
        self._batch_size, self._evaluated = batch_size, evaluated
        self._stream = stream_of(seed)
        self._order: Iterator[Tensor] = iter(())
        self._batch = Examples(*(part[:batch_size].clone() for part in self.train))

    def next(self) -> None:
        which = next(self._order, None)
        if which is None:
            count, size = len(self.train.targets), self._batch_size
            order = torch.randperm(count, generator=self._stream)
            self._order = iter(order[: count // size * size].view(-1, size))
            which = next(self._order)
        for place, source in zip(self._batch, self.train, strict=True):
            torch.index_select(source, 0, which.to(self.device), out=place)

    def loss(self) -> Tensor:
        return self._criterion(self.forward(self._batch.inputs), self._batch.targets)

    def evaluate(self) -> Measured:
        """The loss of the training examples, and the metric of the test examples."""
        losses, metrics = [], []
        for _ in range(self._draws):
            inputs, targets = (part[: self._evaluated] for part in self.train)
            losses.append(float(self._criterion(self.network(inputs), targets)))
            metrics.append(self._score(self.network(self.test.inputs), self.test))
        return Measured(sum(losses) / self._draws, sum(metrics) / self._draws)

    def inputs(self) -> Iterable[Tensor]:
        """The training examples in order, in whole batches."""
        norms = nn.modules.batchnorm._BatchNorm
        if not any(isinstance(module, norms) for module in self.network.modules()):
            return ()
        parts = torch.split(self.train.inputs, self._batch_size)
        return [part for part in parts if len(part) == self._batch_size]


def supervised(
    network: Callable[[], nn.Module], data: Callable[[], Split],
    criterion: Callable[[Any, Tensor], Tensor], score: Score | None = None, batch_size: int = 64,
    **options: Any,
) -> Build:  # fmt: skip
    """What makes :class:`Supervised` work, from what makes the network and the data."""
    return lambda seed, device: Supervised(
        network(), data(), criterion, score, batch_size, seed, device, **options
    )


def accuracy(outputs: Tensor, examples: Examples) -> float:
    """The share of right classes in percent.

    >>> outputs = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    >>> accuracy(outputs, Examples(outputs, torch.tensor([1, 1])))
    50.0
    """
    return 100.0 * float((outputs.argmax(dim=1) == examples.targets).float().mean())
