"""What a training step costs: SGD and the package's optimizers in the same loop, in one run."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.optim import SGD, Optimizer

from heavystep.bench.timing import interleaved
from heavystep.optim import SHBArmijo
from heavystep.paper.appendix_e import FIXED
from heavystep.paper.figure3.definition import methods
from heavystep.training.history import EpochRow
from heavystep.training.memory import free
from heavystep.training.resnet import NETWORKS
from heavystep.training.setup import chosen_kernels, optimizer_of, threads_for
from heavystep.training.trainer import Labelled, Trainer

Make = Callable[[nn.Module, int], Optimizer]
"""An optimizer from a network and its number of steps an epoch."""
CLASSES = 10
BASELINE = "SGD(fused)"
SETTLED = 10
"""Steps after which everything is recorded and in place."""


@dataclass(frozen=True)
class Size:
    """Of what is trained."""

    network: str
    batch_size: int
    steps: int
    """In an epoch."""
    test_images: int
    rounds: int


FULL = Size("resnet18", 256, 195, 10_000, rounds=3)
SMALL = Size("small", 64, 8, 256, rounds=2)


@dataclass(frozen=True)
class Cost:
    """What one optimizer takes."""

    what: str
    step: float
    """Seconds, one after another with nothing in between."""
    eager: float
    """The same as a plain loop, without graphs; equal on a CPU."""
    epoch: float
    """Seconds of an epoch in the trainer, with its evaluation on the test images."""
    memory: int
    """Bytes at the peak, with images and network."""
    waits: float
    """How often a step waits for the GPU."""
    trials: float
    """Losses evaluated in the line search, a step."""


def optimizers(device: torch.device) -> dict[str, Make]:
    """From a network and its steps an epoch, by name; the methods are Figure 3's."""
    known = methods()
    chosen = {"SHB": FIXED[2], "SHBPolyak": "SHB-PS", "SHBArmijo": "SHB-ALS"}
    return {
        BASELINE: lambda net, _: SGD(net.parameters(), lr=0.01, momentum=0.9, fused=True),
        **{
            name: lambda net, steps, name=name: optimizer_of(  # type: ignore[misc]
                known[chosen[name]], net, steps, device
            )
            for name in chosen
        },
    }


def made_up_images(count: int, seed: int = 0) -> Labelled:
    """Noise around one picture a class: something to learn, of CIFAR's shape.

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
        """One that is warm; ``plain`` without graphs."""
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
        """Until the device has nothing to do."""
        if self._device.type == "cuda":
            torch.cuda.synchronize()

    def seconds(self, trainers: dict[str, Trainer], rounds: int) -> dict[str, float]:
        """Of a step, taking turns."""
        steps = self._size.steps

        def job(trainer: Trainer) -> Callable[[], Callable[[], object]]:
            return lambda: lambda: self.take(trainer, steps)

        times = interleaved({name: job(trainer) for name, trainer in trainers.items()}, rounds)
        return {name: time / steps for name, time in times.items()}

    def waits(self, trainer: Trainer) -> float:
        """How often a step waits for the GPU."""
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
        """Most bytes in use since the last restart; 0 on a CPU."""
        if self._device.type != "cuda":
            return 0
        self.wait()
        if restart:
            free()
            torch.cuda.reset_peak_memory_stats()
        return torch.cuda.max_memory_allocated()


def training_costs(size: Size, device: torch.device) -> list[Cost]:
    """Every optimizer's, the baseline first."""
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
    """The step as anybody would write it, without graphs."""

    def searched() -> None:
        trainer.prepare()
        trainer.optimizer.step(trainer.loss)
        trainer.report()

    def whole() -> None:
        trainer.prepare()
        trainer.optimizer.zero_grad()
        loss = trainer.loss()
        loss.backward()  # type: ignore[no-untyped-call]
        if isinstance(trainer.optimizer, SGD):
            trainer.optimizer.step()
        else:
            trainer.optimizer.step(loss=loss)
        trainer.report()

    return searched if isinstance(trainer.optimizer, SHBArmijo) else whole


def size_of(network: nn.Module) -> int:
    """Bytes of parameters and buffers."""
    tensors = [*network.parameters(), *network.buffers()]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
