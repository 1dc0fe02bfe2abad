"""What a training step costs: SGD and our optimizers in the same loop, in one run."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.optim import SGD, Optimizer

from heavystep.lab.cost import MEASURED, shortest, usual_step
from heavystep.lab.data import Images
from heavystep.lab.training.networks import NETWORKS
from heavystep.lab.training.run import free, prepared
from heavystep.lab.training.trainer import Trainer
from heavystep.methods import method_of
from heavystep.optimizers import create

CLASSES, SETTLED = 10, 10  # after so many steps all graphs are recorded and all memory is in place
Make = Callable[[nn.Module], Optimizer]


class Size(NamedTuple):
    """What is trained: steps of an epoch, and how often each is timed."""

    network: str
    batch_size: int
    steps: int
    rounds: int


FULL, SMALL = Size("resnet18", 256, 195, 3), Size("small", 64, 8, 2)


class TrainingCost(NamedTuple):
    """What a step costs: in the trainer, ``eager`` in a plain loop; peak memory, 0 on a CPU."""

    what: str
    step: float
    eager: float
    memory: int
    trials: float


def optimizers(device: torch.device) -> dict[str, Make]:
    """What makes each optimizer, by name."""

    def ours(method: str, options: dict[str, Any], network: nn.Module) -> Optimizer:
        buffers = {"buffers": network.buffers} if method_of(method).rule.searches else {}
        return create(method, network.parameters(), **options, **buffers)

    fused = True if device.type == "cuda" else None
    return {
        "SGD": lambda net: SGD(net.parameters(), lr=0.01, momentum=0.9, fused=fused),
        **{name: partial(ours, *given) for name, given in MEASURED.items()},
    }


def made_up_images(count: int, seed: int = 0) -> Images:
    """Images of CIFAR's shape that can be learnt: one picture for each class, with noise."""
    generator = np.random.default_rng(seed)
    pictures = np.random.default_rng(0).integers(64, 128, (CLASSES, 3, 32, 32), np.uint8)
    labels = generator.integers(0, CLASSES, count)
    noise = generator.integers(0, 128, (count, 3, 32, 32), np.uint8)
    return Images(pictures[labels] + noise, labels)


def training_costs(size: Size, device: torch.device) -> list[TrainingCost]:
    """The costs of every optimizer, those of SGD first."""
    images, test = made_up_images(size.steps * size.batch_size), made_up_images(256, seed=1)

    def take(made: Trainer, steps: int = size.steps) -> None:
        for _ in range(steps):
            made.take_step()
        if device.type == "cuda":
            torch.cuda.synchronize()

    def trainer(make: Make, plain: bool = False) -> Trainer:
        torch.manual_seed(0)
        made = Trainer(
            NETWORKS[size.network](CLASSES), lambda net, _: make(net), images, test,
            batch_size=size.batch_size, seed=0, device=device,
        )  # fmt: skip

        def step() -> None:
            made.prepare()
            usual_step(made.optimizer, made.loss)

        if plain:
            made.step = step
        made.begin_epoch()
        take(made, SETTLED)
        return made

    def seconds(made: dict[str, Trainer], rounds: int) -> dict[str, float]:
        times = shortest({name: partial(take, each) for name, each in made.items()}, rounds)
        return {name: each / size.steps for name, each in times.items()}

    known, peaks, recorded = optimizers(device), dict[str, int](), dict[str, Trainer]()
    with prepared(size.network == "small"):
        for name, make in known.items():
            before = _peak(device, restart=True)
            recorded[name] = trainer(make)
            peaks[name] = _peak(device) - before
        steps = seconds(recorded, size.rounds)
        trials = {name: made.meter.means().trials for name, made in recorded.items()}
        recorded.clear()
        eager = seconds({name: trainer(make, plain=True) for name, make in known.items()}, 1)
    return [TrainingCost(n, steps[n], eager[n], peaks[n], trials[n]) for n in known]


def _peak(device: torch.device, restart: bool = False) -> int:
    """The most bytes in use since the last restart; 0 on a CPU."""
    if device.type != "cuda":
        return 0
    torch.cuda.synchronize()
    if restart:
        free()
        torch.cuda.reset_peak_memory_stats()
    return torch.cuda.max_memory_allocated()
