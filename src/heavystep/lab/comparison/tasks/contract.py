"""A task: a network, its batches, its loss and what is measured at the end."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from heavystep.lab.data import Examples, Split
from heavystep.lab.training.trainer import Measured, Work
from heavystep.problems import FiniteSum

ORDER = 1000
"""Added to the seed of a run for the order of its examples, so that no network draws from it."""
LOWER, HIGHER = -1, 1  # the direction in which a metric is better
QUICK = 5  # a quick run has a fifth of the steps: the order of methods is seen by then


class Metric(NamedTuple):
    """A quantity measured on unseen data, beside the training loss.

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
        """Distance of a value behind another one, in the unit; negative if it is ahead.

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
        build: makes the work; None: it is simulated.
        missing: one line about data that are not here; empty if they are.
        gpu: whether it needs a GPU to be done in a reasonable time.
        version: to be raised when data, network or batches change; part of the key of runs.
        problem: makes the problem that is simulated, without a network.
        seeds: how many runs of each are usual.
    """

    name: str
    title: str
    metric: Metric
    steps: int
    build: Build | None
    missing: Callable[[], str] = str
    gpu: bool = False
    version: str = "1"
    problem: Callable[[], FiniteSum] | None = None
    seeds: int = 3

    def length(self, *, quick: bool) -> int:
        return max(self.steps // QUICK, min(self.steps, 30)) if quick else self.steps

    def begun(self, seed: int, device: torch.device) -> Work:
        """The work before its first step."""
        assert self.build is not None
        torch.manual_seed(seed)
        return self.build(seed, device)


class Supervised(Work):
    """Batches of examples: epochs of shuffled ones without what is left, or drawn one by one.

    Args:
        network: what is trained.
        data: to learn from and to test on.
        criterion: the loss, of outputs and targets.
        score: the metric, of outputs and targets of the test examples; None: the loss.
        batch_size: examples in a step.
        drawn: whether every example is drawn independently.
        draws: how often an evaluation is repeated and averaged, if the network draws.
        evaluated: training examples that the loss is measured on; None: all.
    """

    def __init__(
        self, seed: int, device: torch.device, network: nn.Module, data: Split,
        criterion: Callable[[Any, Tensor], Tensor],
        score: Callable[[Any, Tensor], float | Tensor] | None = None, batch_size: int = 64, *,
        drawn: bool = False, draws: int = 1, evaluated: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(network, device)
        self.train, self.test = (Examples(*(x.to(device) for x in part)) for part in data)
        self._criterion, self._score = criterion, score or criterion
        self._batch_size, self._draws, self._evaluated = batch_size, draws, evaluated
        self._order = self._places(torch.Generator().manual_seed(seed + ORDER), drawn)
        self.batch = Examples(*(part[:batch_size].clone() for part in self.train))

    def _places(self, stream: torch.Generator, drawn: bool) -> Iterator[Tensor]:
        """The places of the examples of each batch."""
        count, size = len(self.train.targets), self._batch_size
        while True:
            if drawn:
                yield torch.randint(count, (size,), generator=stream)
            else:
                order = torch.randperm(count, generator=stream)
                yield from order[: count // size * size].view(-1, size)

    def next(self) -> None:
        which = next(self._order).to(self.device)
        for place, source in zip(self.batch, self.train, strict=True):
            torch.index_select(source, 0, which, out=place)

    def loss(self) -> Tensor:
        return self._criterion(self.forward(self.batch.inputs), self.batch.targets)

    def evaluate(self) -> Measured:
        """The loss of the training examples, and the metric of the test examples."""
        losses, metrics = [], []
        for _ in range(self._draws):
            inputs, targets = (part[: self._evaluated] for part in self.train)
            losses.append(float(self._criterion(self.network(inputs), targets)))
            metrics.append(float(self._score(self.network(self.test.inputs), self.test.targets)))
        return Measured(sum(losses) / self._draws, sum(metrics) / self._draws)

    def inputs(self) -> Iterable[Tensor]:
        """The training examples in order, in whole batches."""
        parts = torch.split(self.train.inputs, self._batch_size)
        return [part for part in parts if len(part) == self._batch_size]


def supervised(network: Callable[[], nn.Module], data: Callable[[], Split], *given: Any,
               **options: Any) -> Build:  # fmt: skip
    """A function that builds :class:`Supervised` work from makers of the network and the data."""
    return lambda seed, device: Supervised(seed, device, network(), data(), *given, **options)


def accuracy(outputs: Tensor, classes: Tensor) -> float:
    """The share of right classes in percent.

    >>> accuracy(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.tensor([1, 1]))
    50.0
    """
    return 100.0 * float((outputs.argmax(dim=1) == classes).float().mean())
