"""Runs of Figure 3: what decides their numbers, training what is missing, and curves of them."""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from heavystep.arrays import Array
from heavystep.lab.data import CIFAR, Examples, Split
from heavystep.lab.store import DamagedError, Store, key_of
from heavystep.lab.sweeps import Progress
from heavystep.lab.training.epochs import (
    NOW,
    DivergedError,
    EpochRow,
    EpochTrainer,
    load_checkpoint,
    save_checkpoint,
)
from heavystep.lab.training.images import ImageWork, colours_of, images_of
from heavystep.lab.training.networks import NETWORKS
from heavystep.lab.training.trainer import compiles, hardware_settings, search_options
from heavystep.methods import method_of
from heavystep.optimizers import create
from heavystep.records import Trajectories

PROTOCOL = 1
"""The version of the trainer. Raise it when the same specification would give other numbers."""
UNSAID = {
    "lr": 1.0, "scaling": "practical", "lower_bound": 0.0, "max_trials": 100, "loss_eps": None,
}  # fmt: skip
"""Options that protocol 1 leaves out of its specifications. They were the defaults when it was
made, and stay what they are when defaults change."""
CHECKPOINT, CHECKPOINT_SECONDS = 3, 30.0
"""The version of checkpoints, and what a run that is killed loses at most."""
Note = Callable[[str], object]  # told a line that the user should read


@dataclass(frozen=True)
class MethodSpec:
    """A method: what the paper calls it, its name in the registry, and its options, sorted."""

    name: str
    optimizer: str
    options: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Scale:
    """Which network is trained, and on how many images, the first ones of the data set."""

    network: str = "resnet18"
    batch_size: int = 256
    train_images: int = 50_000
    test_images: int = 10_000


@dataclass(frozen=True)
class TrainingSpec:
    """Everything that decides the numbers of one run, except for its length.

    No method knows how many epochs there will be, so a run of 200 epochs begins with one of 30.
    """

    data_set: str
    method: MethodSpec
    scale: Scale
    seed: int

    @property
    def label(self) -> str:
        return f"{self.data_set} {self.method.name} seed {self.seed}"

    def text(self) -> str:
        return json.dumps({"protocol": PROTOCOL, "run": asdict(self)}, sort_keys=True)

    def key(self) -> str:
        return key_of(self.text())

    def checkpoint(self, folder: Path) -> Path:
        """The file with the network and the optimizer, from which the run can go on."""
        return folder.parent / "checkpoints" / f"{self.key()}.pt"

    def save(self, folder: Path, history: Sequence[EpochRow]) -> None:
        columns = zip(EpochRow._fields, map(np.array, zip(*history, strict=True)), strict=True)
        Store(folder).save(self.key(), self.text(), dict(columns))

    def history(self, folder: Path, note: Note = str) -> list[EpochRow]:
        """The epochs that are there; a damaged file is noted and has none."""
        try:
            columns = Store(folder).load(self.key(), self.text()) or {}
        except DamagedError as damage:
            note(f"{damage}; it is left out")
            return []
        return [EpochRow(*row) for row in zip(*(n.tolist() for n in columns.values()), strict=True)]

    def trainer(self, device: torch.device) -> EpochTrainer:
        """The trainer of the run before its first step."""
        scale, (train, test) = self.scale, images_of(self.data_set)
        images = Split(
            Examples(*(part[: scale.train_images] for part in train)),
            Examples(*(part[: scale.test_images] for part in test)),
        )
        colours = colours_of(self.data_set, scale.train_images)
        torch.manual_seed(self.seed)
        network = NETWORKS[scale.network](CIFAR[self.data_set].classes)
        work = ImageWork(network, images, colours, scale.batch_size, self.seed, device)
        # A line search compares losses of a forward with and without gradients. Compiled, these are
        # two graphs whose roundings differ, by less than what it tolerates.
        if device.type == "cuda" and scale.network != "small" and compiles(device):
            work.compile()
        return EpochTrainer(work, optimizer_of(self.method, work))


def optimizer_of(method: MethodSpec, work: ImageWork) -> Any:
    """The optimizer of a method; methods with a smooth reset have n_b steps in an epoch."""
    known = method_of(method.optimizer)
    said = {**UNSAID, "steps_per_epoch": work.train.batches, **dict(method.options)}
    options = {each.name: said[each.name] for each in known.options if each.name in said}
    return create(
        method.optimizer, work.parameters(), weight_decay=0.0,
        **options | search_options(known, work),
    )  # fmt: skip


@dataclass(frozen=True)
class TrainingRuns:
    """The runs of one curve: a method on a data set from several seeds, to the same epoch."""

    data_set: str
    method: MethodSpec
    scale: Scale
    seeds: tuple[int, ...]
    epochs: int

    def each(self) -> tuple[TrainingSpec, ...]:
        return tuple(
            TrainingSpec(self.data_set, self.method, self.scale, seed) for seed in self.seeds
        )


def train_missing(
    curves: Iterable[TrainingRuns], folder: Path, progress: Progress, device: torch.device
) -> None:
    """Train every run that does not reach its last epoch.

    All methods are trained with one seed before the next, so that they can be compared early. When
    a run diverges, the others are still trained.

    Raises:
        ValueError: data are missing or damaged, or a run diverged or cannot go on.
    """
    wanted = [(run, curve.epochs) for curve in curves for run in curve.each()]
    lacking, left, diverged = [], 0, list[str]()
    for run, epochs in sorted(wanted, key=lambda pair: (pair[0].data_set, pair[0].seed)):
        if (there := len(run.history(folder))) < epochs:
            lacking.append((run, epochs))
            # Without a checkpoint to go on from, all epochs have to be trained again.
            left += epochs - (there if run.checkpoint(folder).exists() else 0)
    for data_set in {run.data_set for run, _ in lacking}:  # faults of data are told now
        images_of(data_set)
    progress.start(len(wanted), len(wanted) - len(lacking), left)
    for run, epochs in lacking:
        progress.begin(run.label)
        try:
            with hardware_settings(run.scale.network == "small"):
                _train(run, epochs, folder, progress, device)
        except DivergedError as error:
            progress.note(f"{run.label}: {error}; what is good is in {run.checkpoint(folder)}")
            diverged.append(run.label)
        else:
            progress.finish()
    if diverged:
        raise ValueError(f"{len(diverged)} of {len(wanted)} runs diverged: {', '.join(diverged)}")


def _train(
    run: TrainingSpec, epochs: int, folder: Path, progress: Progress, device: torch.device
) -> None:
    """Go on to the last epoch, with a checkpoint there and twice a minute."""
    trainer, path = run.trainer(device), run.checkpoint(folder)
    steps, kept = trainer.work.train.batches, time.perf_counter()
    precision = "float32" if device.type == "cpu" else "bfloat16 autocast"
    identity = f"{run.text()}, checkpoint {CHECKPOINT}, {precision}"
    if state := load_checkpoint(path, identity):
        trainer.load_state_dict(state)

    def keep(complete: bool) -> None:
        """Write a checkpoint, but not after a bad step, and the epochs if there are more now."""
        nonlocal kept
        kept, bad = time.perf_counter(), trainer.meter.streak(NOW) > 0
        if not bad:
            save_checkpoint(path, identity, trainer.state_dict())
        if (complete or not bad) and len(trainer.history) > len(run.history(folder)):
            run.save(folder, trainer.history)

    def after_step() -> None:
        progress.advance(1.0 / steps)
        if time.perf_counter() - kept >= CHECKPOINT_SECONDS:
            keep(complete=False)

    while len(trainer.history) < epochs:
        row = trainer.epoch(after_step)
        speed = f"{steps * run.scale.batch_size / row.seconds:,.0f} images/s"
        progress.report(
            f"epoch {row.epoch}: loss {row.loss:.4g}, test {row.test_accuracy:.1%}, "
            f"step {row.step:.3g}, {row.trials:.1f} trials, {speed}"
        )
    keep(complete=True)


@dataclass(frozen=True)
class TrainedCurve(Trajectories):
    """The epochs of each seed that is there."""

    unfinished: dict[int, dict[str, Array]] = field(default_factory=dict)
    """Metrics of seeds that end before the others: no part of the means, but to be seen."""


TrainedResults = dict[TrainingRuns, TrainedCurve]


def curves(runs: Iterable[TrainingRuns], folder: Path, note: Note = str) -> TrainedResults:
    """The curves, each made of the seeds that reach its last epoch. One without any is left out.

    ``note`` is told which files are damaged and left out, and which runs end early.
    """
    found = {}
    for wanted in runs:
        parts, unfinished, epochs = dict[int, Array](), {}, wanted.epochs
        for run in wanted.each():
            history = np.array(run.history(folder, note), dtype=np.float64)
            if len(history) >= epochs:
                parts[run.seed] = history[:epochs]
            elif len(history):
                note(f"{run.label} has {len(history)} of {epochs} epochs and does not count")
                unfinished[run.seed] = dict(zip(EpochRow._fields, history.T, strict=True))
        if parts:
            rows = np.array(list(parts.values()))
            metrics = {name: rows[:, :, at] for at, name in enumerate(EpochRow._fields) if at}
            k = np.arange(1, epochs + 1)
            found[wanted] = TrainedCurve(k, tuple(parts), metrics, unfinished=unfinished)
    return found


def counted(number: int, thing: str) -> str:
    """A number with what it counts.

    >>> counted(1, "run"), counted(1200, "epoch")
    ('1 run', '1,200 epochs')
    """
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def sizes_text(results: TrainedResults) -> str:
    """Say how many runs the curves have and how long they are; ranges where they differ."""

    def span(numbers: set[int], thing: str) -> str:
        low, high = min(numbers), max(numbers)
        return (f"{low:,} to " if low < high else "") + counted(high, thing)

    seeds = {len(result.seeds) for result in results.values()}
    return f"{span(seeds, 'run')} of {span({len(each.k) for each in results.values()}, 'epoch')}"
