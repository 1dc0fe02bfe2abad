"""What a training step costs: SGD and this package's optimizers in the same loop, in one run."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from heavystep.bench.timing import interleaved
from heavystep.optim import SHBAdam, SHBPolyak, searches
from heavystep.paper.appendix_e import FIXED
from heavystep.paper.figure3.definition import methods
from heavystep.training.history import EpochRow
from heavystep.training.memory import free
from heavystep.training.resnet import NETWORKS
from heavystep.training.setup import chosen_kernels, optimizer_of, threads_for
from heavystep.training.trainer import Labelled, Trainer

Make = Callable[[nn.Module, int], Optimizer]
"""Makes an optimizer, from a network and the number of steps in an epoch."""
CLASSES = 10
BASELINE = "SGD(fused)"
SETTLED = 10
"""After this many steps all graphs are recorded and all memory is in place."""


@dataclass(frozen=True)
class Size:
    """The sizes of what is trained."""

    network: str
    batch_size: int
    steps: int
    """Steps in an epoch."""
    test_images: int
    rounds: int


FULL = Size("resnet18", 256, 195, 10_000, rounds=3)
SMALL = Size("small", 64, 8, 256, rounds=2)


@dataclass(frozen=True)
class Cost:
    """What a step of one optimizer costs."""

    what: str
    step: float
    """Seconds for a step, when steps follow each other with nothing in between."""
    eager: float
    """Seconds for a step in a plain loop without graphs; on a CPU there is no difference."""
    epoch: float
    """Seconds for an epoch of the trainer, with its evaluation on the test images."""
    memory: int
    """Bytes at the peak, with images and network; 0 on a CPU."""
    waits: float
    """How often a step waits for the GPU."""
    trials: float
    """How many losses the line search evaluates in a step."""


def optimizers(device: torch.device) -> dict[str, Make]:
    """What makes each optimizer, by name: torch's SGD, methods of Figure 3, and our defaults."""
    known = methods()
    chosen = {"SHB": FIXED[2], "SHBPolyak, paper": "SHB-PS", "SHBArmijo, paper": "SHB-ALS"}
    return {
        BASELINE: lambda net, _: SGD(net.parameters(), lr=0.01, momentum=0.9, fused=True),
        **{
            name: lambda net, steps, name=name: optimizer_of(  # type: ignore[misc]
                known[chosen[name]], net, steps, device
            )
            for name in chosen
        },
        "SHBPolyak": lambda net, _: SHBPolyak(net.parameters()),
        "SHBAdam": lambda net, _: SHBAdam(net.parameters()),
    }


def made_up_images(count: int, seed: int = 0) -> Labelled:
    """Images of CIFAR's shape that can be learnt: one picture for each class, with noise.

    Args:
        count: how many.
        seed: of the noise.
    """
    generator = np.random.default_rng(seed)
    pictures = np.random.default_rng(0).integers(64, 128, (CLASSES, 3, 32, 32), np.uint8)
    labels = generator.integers(0, CLASSES, count)
    noise = generator.integers(0, 128, (count, 3, 32, 32), np.uint8)
    return Labelled(pictures[labels] + noise, labels)


class _Bench:
    """Trainers of one size on one device."""

    def __init__(self, size: Size, device: torch.device) -> None:
        self._size, self._device = size, device
        self._train = made_up_images(size.steps * size.batch_size)
        self._test = made_up_images(size.test_images, seed=1)

    def trainer(self, make: Make, plain: bool = False) -> Trainer:
        """A trainer that has taken its first steps; a ``plain`` one uses no graphs."""
        torch.manual_seed(0)
        trainer = Trainer(
            NETWORKS[self._size.network](CLASSES), make, self._train, self._test,
            batch_size=self._size.batch_size, seed=0, device=self._device,
        )  # fmt: skip
        if plain:
            trainer.step = plain_step(trainer)
        trainer.begin_epoch()
        self.take(trainer, SETTLED)
        return trainer

    def take(self, trainer: Trainer, steps: int) -> None:
        """Take steps, and wait until they are done."""
        for _ in range(steps):
            trainer.take_step()
        self.wait()

    def wait(self) -> None:
        """Wait until the device has nothing to do."""
        if self._device.type == "cuda":
            torch.cuda.synchronize()

    def seconds(self, trainers: dict[str, Trainer], rounds: int) -> dict[str, float]:
        """Seconds for a step of each trainer; the trainers take turns."""
        steps = self._size.steps

        def job(trainer: Trainer) -> Callable[[], Callable[[], object]]:
            return lambda: lambda: self.take(trainer, steps)

        times = interleaved({name: job(trainer) for name, trainer in trainers.items()}, rounds)
        return {name: time / steps for name, time in times.items()}

    def waits(self, trainer: Trainer) -> float:
        """How often a step waits for the GPU, on average."""
        if self._device.type != "cuda":
            return 0.0
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                for _ in range(SETTLED):
                    trainer.take_step()
            finally:
                torch.cuda.set_sync_debug_mode("default")
        return sum("called a synchronizing" in str(each.message) for each in caught) / SETTLED

    def peak(self, restart: bool = False) -> int:
        """The most bytes in use since the last restart; 0 on a CPU."""
        if self._device.type != "cuda":
            return 0
        self.wait()
        if restart:
            free()
            torch.cuda.reset_peak_memory_stats()
        return torch.cuda.max_memory_allocated()


def training_costs(size: Size, device: torch.device) -> list[Cost]:
    """The costs of every optimizer, those of the baseline first."""
    with chosen_kernels(), threads_for(size.network):
        return _costs(_Bench(size, device), size, optimizers(device))


def _costs(bench: _Bench, size: Size, known: dict[str, Make]) -> list[Cost]:
    bench.trainer(known[BASELINE])  # lets cuDNN try its kernels, which takes memory once
    trainers, peaks = {}, {}
    for name, make in known.items():
        before = bench.peak(restart=True)
        trainers[name] = bench.trainer(make)
        peaks[name] = bench.peak() - before
    steps = bench.seconds(trainers, size.rounds)
    waits = {name: bench.waits(trainer) for name, trainer in trainers.items()}
    rows = {name: _one_epoch(trainer) for name, trainer in trainers.items()}
    trainers.clear()
    plain = {name: bench.trainer(make, plain=True) for name, make in known.items()}
    eager = bench.seconds(plain, rounds=1)
    return [
        Cost(
            name, steps[name], eager[name], rows[name].seconds, peaks[name], waits[name],
            rows[name].trials,
        )
        for name in known
    ]  # fmt: skip


def _one_epoch(trainer: Trainer) -> EpochRow:
    trainer.restart_epoch()
    row = trainer.epoch()
    assert row is not None
    return row


def plain_step(trainer: Trainer) -> Callable[[], object]:
    """The trainer's step without graphs."""

    def step() -> None:
        trainer.prepare()
        usual_step(trainer.optimizer, trainer.loss)
        trainer.report()

    return step


def usual_step(optimizer: Any, loss: Callable[[], Tensor]) -> None:
    """One step of any optimizer, as one usually writes it.

    Args:
        optimizer: one of heavystep, which reports ``info`` and takes a loss, or one of torch.
        loss: computes the loss of a batch.
    """
    if searches(optimizer):
        optimizer.step(loss)
        return
    optimizer.zero_grad()
    value = loss()
    value.backward()  # type: ignore[no-untyped-call]
    if hasattr(optimizer, "info"):
        optimizer.step(loss=value)
    else:
        optimizer.step()


def size_of(network: nn.Module) -> int:
    """The size of parameters and buffers in bytes."""
    tensors = [*network.parameters(), *network.buffers()]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
