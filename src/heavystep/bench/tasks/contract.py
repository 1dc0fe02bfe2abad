"""A task: a network, its batches, its loss and what is measured at the end."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

EVALUATION_SEED = 5
"""Of what evaluation draws, which is the same for every method and seed."""
LOWER, HIGHER = -1, 1
"""Which way a metric is better."""


@dataclass(frozen=True)
class Metric:
    """What is measured beside the training loss."""

    name: str
    better: int
    """:data:`LOWER` or :data:`HIGHER`."""
    unit: str
    """Of differences: ``"points"``, ``"nats"``, or ``"%"`` of the better value."""
    close: float
    """Differences of up to so much, in this unit, are level."""

    def behind(self, value: float, best: float) -> float:
        """How far a value is behind another one, in the unit; negative if it is ahead.

        >>> Metric("error", LOWER, "%", 2.0).behind(1.5, 1.0)
        50.0
        >>> Metric("accuracy", HIGHER, "points", 0.5).behind(97.0, 98.0)
        1.0
        """
        difference = self.better * (best - value)
        return 100.0 * difference / abs(best) if self.unit == "%" else difference


class Size(NamedTuple):
    """How long runs are, and how thoroughly they are evaluated."""

    steps: int
    evaluations: int = 1
    """Batches or draws of an evaluation, where a task samples them."""


class Measured(NamedTuple):
    """What an evaluation found."""

    loss: float
    """Of the training data."""
    metric: float


class Work(ABC):
    """A task under way: a network on a device, with a batch in memory that stays in place."""

    network: nn.Module
    forward: Callable[..., Any]
    """The network as it is trained; compiled, if :meth:`compile` was called."""
    device: torch.device

    def __init__(self, network: nn.Module, device: torch.device) -> None:
        self.network, self.device = network.to(device), device
        self.forward = self.network

    def parameters(self) -> list[nn.Parameter]:
        """Those that are trained."""
        return [param for param in self.network.parameters() if param.requires_grad]

    def compile(self) -> None:
        """Fuse the kernels of a training step; evaluation stays as it is."""
        self.forward = torch.compile(self.network, dynamic=False)

    @abstractmethod
    def next(self) -> None:
        """Put the next batch in place."""

    def prepare(self) -> None:
        """Work on the batch that belongs to the step, such as augmentation."""
        return

    @abstractmethod
    def loss(self) -> Tensor:
        """The loss of the batch that is in place."""

    @abstractmethod
    def evaluate(self) -> Measured:
        """Measure the network, which is in ``eval()``."""

    def inputs(self) -> Iterable[Tensor]:
        """Batches from which BatchNorm's statistics are estimated; none without BatchNorm."""
        return ()

    @torch.no_grad()
    def measured(self) -> Measured:
        """Measure the network as it is now; random numbers and modes stay as they are."""
        devices = [self.device] if self.device.type == "cuda" else []
        self.network.eval()
        with torch.random.fork_rng(devices):
            torch.manual_seed(EVALUATION_SEED)
            found = self.evaluate()
        self.network.train()
        return found


Build = Callable[[int, torch.device, Size], Work]


@dataclass(frozen=True)
class Task:
    """One row of the registry."""

    name: str
    title: str
    metric: Metric
    usual: Size
    quick: Size
    build: Build
    """The work, from a seed, a device and the size of a run."""
    missing: Callable[[], str] = lambda: ""
    """One line about data that are not here; empty if they are."""
    gpu: bool = False
    """Whether it needs a GPU to be done in a reasonable time."""
    version: int = 1
    """To be raised when data, network or batches change; part of the key of stored runs."""

    def begun(self, seed: int, device: torch.device, size: Size) -> Work:
        """The work before its first step; torch's random numbers are those of the seed."""
        torch.manual_seed(seed)
        work = self.build(seed, device, size)
        work.network.train()
        return work
