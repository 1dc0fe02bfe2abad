"""The trainer of all networks: work that has batches and a loss, and steps on it."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from inspect import signature
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from heavystep import validation
from heavystep.methods import Method
from heavystep.optim import CapturedStep
from heavystep.optimizers import searches

DEVICES = ("cpu", "cuda")
EVALUATION_SEED = 5  # of what evaluation draws, which is the same for every method and seed
LOOK_EVERY = 50  # steps between two looks at whether a run diverged, for which the host waits
BFLOAT16_LOSSES = {"loss_eps": 2.0**-12, "example_loss": 1.0}
"""Options of a line search for losses from bfloat16 activations. The relative rounding error
of a minibatch of 256 images, a ResNet-18 and a cross-entropy l was measured, by moving parameters
by 1e-6 of themselves, as 4e-4 / sqrt(l) from l = 2 (0.03%) to l = 2e-4 (2.3%). With 2^-12 alone
searches end half way through 200 epochs, in steps of 1e-7; with 2^-7 they compare nothing at the
start. A search tolerates four times what is given here."""


class Measured(NamedTuple):
    """A loss, and a metric on unseen data."""

    loss: float
    metric: float


class Work(ABC):
    """A network on a device, with a batch in memory that stays in place."""

    network: nn.Module
    forward: Callable[..., Any]
    """The network as it is trained; compiled, if :meth:`compile` was called."""

    def __init__(self, network: nn.Module, device: torch.device) -> None:
        self.network, self.device = network.to(device), device
        self.forward = self.network

    def parameters(self) -> list[nn.Parameter]:
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


class Trainer:
    """Takes steps on a work; on a GPU they are replayed as CUDA graphs.

    Args:
        work: gives batches and losses.
        optimizer: of this package, of torch, or of another one.
        report: follows each step.
        captured: whether :class:`~heavystep.CapturedStep` can take the steps.
    """

    def __init__(
        self, work: Work, optimizer: Optimizer, report: Callable[[], object] = int, *,
        captured: bool = True,
    ) -> None:  # fmt: skip
        self.work, self.optimizer = work, optimizer

        def plain() -> None:
            work.prepare()
            usual_step(optimizer, work.loss)
            report()

        self._step: Callable[[], object] = plain
        if captured:
            self._step = CapturedStep(optimizer, work.loss, prepare=work.prepare, report=report)

    def take_step(self) -> None:
        """One step on the next batch."""
        self.work.next()
        self._step()


@cache
def takes_loss(kind: type[Optimizer]) -> bool:
    """True if ``step(loss=...)`` of these optimizers is to be given the loss."""
    return "loss" in signature(kind.step).parameters


def usual_step(optimizer: Any, loss: Callable[[], Tensor]) -> None:
    """A step as users write it."""
    if searches(optimizer):
        optimizer.step(loss)
        return
    optimizer.zero_grad()
    value = loss()
    value.backward()  # type: ignore[no-untyped-call]
    told = takes_loss(type(optimizer))  # type: ignore[arg-type]  # mypy doubts that it has a hash
    optimizer.step(**({"loss": value} if told else {}))


def search_options(method: Method, work: Work) -> dict[str, Any]:
    """Options that a line search needs: the buffers, and on a GPU the rounding of the losses."""
    rounding = BFLOAT16_LOSSES if work.device.type == "cuda" else {}
    return {"buffers": work.network.buffers, **rounding} if method.rule.searches else {}


@cache
def compiles(device: torch.device) -> bool:
    """True if torch can compile: it wants Triton, a C compiler and a GPU that is not too old."""
    # Once a process: that products in float32 could be faster. Ours are in bfloat16.
    with warnings.catch_warnings(action="ignore"):
        try:
            torch.compile(lambda x: x + 1.0)(torch.zeros((), device=device))
        except Exception:  # of many kinds, and none keeps a run from being trained
            return False
    return True


def the_device(name: str | None) -> torch.device:
    """A device by its name; without a name, the GPU if there is one.

    Raises:
        ValueError: there is no such device.
    """
    if name is not None:
        validation.choice("device", name, DEVICES)
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device is 'cuda', but torch sees no GPU here")
    return torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))


@contextmanager
def hardware_settings(small: bool) -> Iterator[None]:
    """Let cuDNN try its algorithms, because shapes never change; one thread for small networks.

    The threads of a small network would wait for each other more than they help. With one thread
    its numbers do not depend on the number of cores.
    """
    threads, benchmark = torch.get_num_threads(), torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    if small:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.backends.cudnn.benchmark = benchmark
