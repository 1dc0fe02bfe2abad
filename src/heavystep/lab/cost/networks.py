"""Cost of a step and of a training step, as ratios within one run.

Optimizers take turns, because machines are not quiet, and those of torch are measured beside ours.
"""

import math
import os
import platform
import time
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from heavystep import __version__
from heavystep.lab.data import Examples, Split
from heavystep.lab.training.epochs import EpochTrainer
from heavystep.lab.training.images import ImageWork, colours
from heavystep.lab.training.networks import NETWORKS
from heavystep.lab.training.trainer import hardware_settings
from heavystep.methods import method_of
from heavystep.optimizers import create, searches

MEASURED: dict[str, tuple[str, dict[str, Any]]] = {
    "HeavyStep": ("HeavyStep", {}),
    "HeavyStep, no metric": ("HeavyStep", {"diagonal": None}),
    "SHB": ("SHB", {"lr": 1e-2}),
    "SHBPolyak": ("SHBPolyak", {"scaling": "practical"}),
    "SHBArmijo": ("SHBArmijo", {"scaling": "practical"}),
}
"""Our optimizers: method and options by the name in tables."""
RUNS_A_TURN = 2
"""Each job is run this often in a turn: the first run pays for caches that others have filled."""
Make = Callable[[nn.Module], Any]
Job = Callable[[], object]


def optimizers(**others: Make) -> dict[str, Make]:
    """Makers of the optimizers of a network: others, by which times are told, then ours."""

    def ours(method: str, options: dict[str, Any], network: nn.Module) -> Optimizer:
        buffers = {"buffers": network.buffers} if method_of(method).rule.searches else {}
        return create(method, network.parameters(), **options, **buffers)

    return others | {name: partial(ours, *given) for name, given in MEASURED.items()}


def machine() -> str:
    """The processor, the GPU if torch sees one, how busy they are, and what runs on them."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    parts = [next(iter(models), "") or platform.processor() or platform.machine()]
    if torch.cuda.is_available():
        parts.append(torch.cuda.get_device_name())
    if hasattr(os, "getloadavg"):
        parts.append(f"load average {os.getloadavg()[0]:.1f}")
    return ", ".join([*parts, f"heavystep {__version__}", f"torch {torch.__version__}"])


def in_turns(jobs: Mapping[str, Job], repeats: int, before: Job = int) -> dict[str, list[float]]:
    """All times of each job in seconds; they take turns, so that a busy spell falls on all.

    ``before`` is called before each measurement, and is not timed.
    """
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            for _ in range(RUNS_A_TURN):
                before()
                begin = time.perf_counter()
                job()
                times[name].append(time.perf_counter() - begin)
    return times


def shortest(jobs: Mapping[str, Job], repeats: int) -> dict[str, float]:
    """The shortest time of each job: it found a moment in which the machine did nothing else."""
    return {name: min(times) for name, times in in_turns(jobs, repeats).items()}


def synchronize() -> None:
    """Wait for the GPU, if there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


# A step: gradients are fixed and closures return a given loss, so that only the optimizers' own
# work is timed; a line search makes one trial.

WORKLOADS: dict[str, list[tuple[int, ...]]] = {
    "MLP, 4 tensors": [(32, 20), (32,), (10, 32), (10,)],
    "ResNet-18, 62 tensors": [tuple(p.shape) for p in NETWORKS["resnet18"](10).parameters()],
    "1,000 tensors of 32": [(32,)] * 1000,
}
REPEATS = 5  # steps that are timed together


class StepCost(NamedTuple):
    """Time of a step, also by that of the first optimizer; memory in copies of the parameters.

    Memory is besides parameters and gradients, between steps and at most.
    """

    optimizer: str
    ms: float
    ratio: float
    kept: float
    peak: float


def step_costs(workload: str, device: str = "cpu", rounds: int = 40) -> list[StepCost]:
    """The costs of every optimizer on one of :data:`WORKLOADS`, those of SGD first."""
    loss = torch.tensor(1.0, device=device)
    high, low = torch.tensor(1e6, device=device), torch.tensor(0.0, device=device)
    shapes = WORKLOADS[workload]
    size = 4 * sum(map(math.prod, shapes))

    def stepper(make: Make) -> Job:
        generator, params = torch.Generator().manual_seed(0), nn.ParameterList()
        for shape in shapes:
            param = nn.Parameter(torch.randn(shape, generator=generator).to(device))
            param.grad = 1e-3 * torch.randn(shape, generator=generator).to(device)
            params.append(param)
        opt = make(params)

        def search() -> None:
            # A detached loss says that p.grad belongs to it; the first trial is accepted.
            losses = iter((high, low))
            opt.step(lambda: next(losses))

        if searches(opt):
            return search
        return partial(opt.step, loss=loss) if hasattr(opt, "info") else opt.step

    def steps(step: Job, count: int = REPEATS) -> None:
        for _ in range(count):
            step()
        synchronize()

    def of_torch(kind: str, **options: Any) -> Make:
        return lambda net: getattr(torch.optim, kind)(net.parameters(), lr=1e-3, **options)

    known = optimizers(**{
        "SGD(foreach=True)": of_torch("SGD", momentum=0.9, foreach=True),
        "SGD(fused=True)": of_torch("SGD", momentum=0.9, fused=True),
        "AdamW(foreach=True)": of_torch("AdamW", foreach=True),
    })  # fmt: skip
    steppers, usage = {name: stepper(make) for name, make in known.items()}, {}
    for name, step in steppers.items():
        with _Allocations() as allocations:
            steps(step, 3)
        usage[name] = sum(allocations.live.values()) / size, allocations.peak / size
    times = shortest({name: partial(steps, step) for name, step in steppers.items()}, rounds)
    first = next(iter(times.values()))
    return [StepCost(name, 1e3 * t / REPEATS, t / first, *usage[name]) for name, t in times.items()]


class _Allocations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of tensors made while it is active and still alive."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live: dict[int, int] = {}
        self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def storage(tensor: Tensor) -> int:
            return tensor.untyped_storage().data_ptr()

        result = func(*args, **(kwargs or {}))
        old = {storage(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor) and storage(leaf) not in old:
                self.live[id(leaf)] = leaf.untyped_storage().nbytes()
                weakref.finalize(leaf, self.live.pop, id(leaf), None)
        self.peak = max(self.peak, sum(self.live.values()))
        return result


# A training step on images that are made up, in the trainer of Figure 3.

CLASSES, SETTLED = 10, 10  # after so many steps all graphs are recorded and all memory is in place


class Size(NamedTuple):
    """The training that is timed: steps of an epoch, and turns of each."""

    network: str
    batch_size: int
    steps: int
    rounds: int


FULL, SMALL = Size("resnet18", 256, 195, 3), Size("small", 64, 8, 2)


class TrainingCost(NamedTuple):
    """Time of a step, also by that of SGD, and that ratio in a loop without recorded steps.

    The peak of the memory is 0 on a CPU.
    """

    optimizer: str
    ms: float
    ratio: float
    plain_ratio: float
    peak_mib: float
    trials: float


def made_up_images(count: int, seed: int = 0) -> Examples:
    """Images of CIFAR's shape that can be learnt: one picture for each class, with noise."""
    generator = np.random.default_rng(seed)
    pictures = np.random.default_rng(0).integers(64, 128, (CLASSES, 3, 32, 32), np.uint8)
    labels = generator.integers(0, CLASSES, count)
    noise = generator.integers(0, 128, (count, 3, 32, 32), np.uint8)
    return Examples(pictures[labels] + noise, labels)


def sgd(network: nn.Module) -> Optimizer:
    """The optimizer by which times are told."""
    fused = True if next(network.parameters()).is_cuda else None
    return SGD(network.parameters(), lr=0.01, momentum=0.9, fused=fused)


def training_costs(size: Size, device: torch.device) -> list[TrainingCost]:
    """The costs of every optimizer, those of SGD first."""
    train = made_up_images(size.steps * size.batch_size)
    images, scale = Split(train, made_up_images(256, seed=1)), colours(train.inputs)

    def take(trainer: EpochTrainer, steps: int = size.steps) -> None:
        for _ in range(steps):
            trainer.take_step()
        synchronize()

    def begun(make: Make, *, captured: bool) -> EpochTrainer:
        torch.manual_seed(0)
        network = NETWORKS[size.network](CLASSES)
        work = ImageWork(network, images, scale, size.batch_size, 0, device)
        trainer = EpochTrainer(work, make(work.network), captured=captured)
        take(trainer, SETTLED)
        return trainer

    known = optimizers(SGD=sgd)
    peaks, recorded = dict[str, float](), dict[str, EpochTrainer]()
    with hardware_settings(size.network == "small"):
        for name, make in known.items():
            if device.type == "cuda":
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            before = _peak(device)
            recorded[name] = begun(make, captured=True)
            peaks[name] = (_peak(device) - before) / 2**20
        steps = shortest(
            {name: partial(take, each) for name, each in recorded.items()}, size.rounds
        )
        trials = {name: each.meter.means()[3] for name, each in recorded.items()}
        recorded.clear()
        jobs = {name: partial(take, begun(make, captured=False)) for name, make in known.items()}
        plain = shortest(jobs, 1)
    return [
        TrainingCost(name, 1e3 * steps[name] / size.steps, steps[name] / steps["SGD"],
                     plain[name] / plain["SGD"], peaks[name], trials[name])
        for name in known
    ]  # fmt: skip


def _peak(device: torch.device) -> int:
    synchronize()
    return torch.cuda.max_memory_allocated() if device.type == "cuda" else 0
