"""Training runs as data: what decides their numbers, where they are kept, and curves of them."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from heavystep.arrays import Array
from heavystep.lab.store import ENDING, DamagedError, Store, key_of
from heavystep.lab.training.trainer import EpochRow
from heavystep.records import Trajectories

PROTOCOL = 1
"""The version of the trainer. Raise it when the same specification would give other numbers."""
UNSAID = {
    "lr": 1.0, "scaling": "practical", "lower_bound": 0.0, "max_trials": 100, "loss_eps": None,
}  # fmt: skip
"""Options that protocol 1 leaves out of its specifications. They were the defaults when it was
made, and stay what they are when defaults change."""
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

    def text(self) -> str:
        return json.dumps({"protocol": PROTOCOL, "run": asdict(self)}, sort_keys=True)

    def key(self) -> str:
        return key_of(self.text())

    def describe(self) -> str:
        return f"{self.data_set} {self.method.name} seed {self.seed}"


@dataclass(frozen=True)
class TrainingRuns:
    """The runs of one curve: a method on a data set from several seeds, to the same epoch.

    ``seeds`` says how many there are, from 0, or which.
    """

    data_set: str
    method: MethodSpec
    scale: Scale
    seeds: int | tuple[int, ...]
    epochs: int

    def each(self) -> tuple[TrainingSpec, ...]:
        seeds = range(self.seeds) if isinstance(self.seeds, int) else self.seeds
        return tuple(TrainingSpec(self.data_set, self.method, self.scale, seed) for seed in seeds)

    def key(self) -> str:
        return key_of(json.dumps([self.epochs, *(run.key() for run in self.each())]))

    def size(self) -> str:
        return f"{counted(len(self.each()), 'run')} of {counted(self.epochs, 'epoch')}"


def counted(number: int, thing: str) -> str:
    """A number with what it counts.

    >>> counted(1, "run"), counted(1200, "epoch")
    ('1 run', '1,200 epochs')
    """
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def parsed(content: dict[str, Any]) -> TrainingSpec | None:
    """The run whose specification this is; None if it is none, or one of another protocol."""
    try:
        run, method = content["run"], content["run"]["method"]
        options = tuple((str(name), value) for name, value in method["options"])
        known = MethodSpec(method["name"], method["optimizer"], options)
        spec = TrainingSpec(run["data_set"], known, Scale(**run["scale"]), run["seed"])
    except (KeyError, TypeError, ValueError):
        return None
    return spec if spec.text() == json.dumps(content, sort_keys=True) else None


@dataclass(frozen=True)
class TrainingStore:
    """The training runs in one folder: a table of epochs each, and where they were made."""

    folder: Path

    def path(self, run: TrainingSpec) -> Path:
        return self.folder / f"{run.key()}{ENDING}"

    def checkpoint(self, run: TrainingSpec) -> Path:
        """The file with the network and the optimizer, from which the run can go on."""
        return self.folder.parent / "checkpoints" / f"{run.key()}.pt"

    def save(self, run: TrainingSpec, history: Sequence[EpochRow]) -> None:
        columns = {
            name: np.array(values, np.int64 if name in ("epoch", "refused") else np.float64)
            for name, values in zip(EpochRow._fields, zip(*history, strict=True), strict=True)
        }
        Store(self.folder).save(run.key(), run.text(), columns)

    def load(self, run: TrainingSpec) -> list[EpochRow] | None:
        """The epochs of a run, or None if there is no file.

        Raises:
            DamagedError: the file cannot be read, or is not this run.
        """
        columns, path = Store(self.folder).load(run.key(), run.text()), self.path(run)
        if columns is None:
            return None
        if tuple(columns) != EpochRow._fields:
            raise DamagedError(f"{path.name} does not have all columns")
        rows = zip(*(values.tolist() for values in columns.values()), strict=True)
        history = [EpochRow(*row) for row in rows]
        if [row.epoch for row in history] != list(range(1, len(history) + 1)):
            raise DamagedError(f"{path.name} does not have all epochs")
        return history

    def whole(self, run: TrainingSpec, note: Note = str) -> list[EpochRow]:
        """The stored epochs of a run; a damaged file is noted and has none."""
        try:
            return self.load(run) or []
        except DamagedError as damage:
            note(f"{damage}; it is left out")
            return []

    def epochs(self, run: TrainingSpec) -> int:
        return len(self.whole(run))


@dataclass(frozen=True)
class TrainedCurve(Trajectories):
    """The epochs of each seed that is there."""

    unfinished: dict[int, dict[str, Array]] = field(default_factory=dict)
    """Metrics of seeds that end before the others: no part of the means, but to be seen."""


TrainedResults = dict[str, TrainedCurve]
"""Curves by the key of :class:`TrainingRuns`."""


def curves(runs: dict[str, TrainingRuns], store: TrainingStore, note: Note = str) -> TrainedResults:
    """The curves, each made of the seeds that reach its last epoch. One without any is left out.

    ``note`` is told which files are damaged and left out, and which runs end early.
    """
    found = {}
    for key, wanted in runs.items():
        parts, unfinished, epochs = dict[int, list[EpochRow]](), {}, wanted.epochs
        for run in wanted.each():
            history = store.whole(run, note)
            if len(history) >= epochs:
                parts[run.seed] = history
            elif history:
                note(f"{run.describe()} has {len(history)} of {epochs} epochs and does not count")
                metrics = _metrics([history], epochs)
                unfinished[run.seed] = {name: values[0] for name, values in metrics.items()}
        if parts:
            k, metrics = np.arange(1, epochs + 1), _metrics(parts.values(), epochs)
            found[key] = TrainedCurve(k, tuple(parts), metrics, unfinished=unfinished)
    return found


def _metrics(parts: Iterable[list[EpochRow]], epochs: int) -> dict[str, Array]:
    """(seeds, epochs) numbers by name."""
    rows = np.array([part[:epochs] for part in parts], dtype=np.float64)
    return {name: rows[:, :, at] for at, name in enumerate(EpochRow._fields) if at}


def survey(store: TrainingStore, note: Note = str) -> Iterator[tuple[TrainingSpec, int]]:
    """All runs with the number of their epochs; a file that is no whole run is noted."""
    others = set(store.folder.glob(f"*{ENDING}"))
    for run in filter(None, map(parsed, Store(store.folder).contents())):
        others.discard(store.path(run))
        if history := store.whole(run, note):
            yield run, len(history)
    for path in sorted(others):
        note(f"{path.name} is not a whole training run; it is left out")


def missing(runs: Iterable[TrainingRuns], store: TrainingStore) -> tuple[int, int]:
    """How many runs are incomplete, and how many epochs they lack. Damaged files have no epochs."""
    lacking = [wanted.epochs - store.epochs(run) for wanted in runs for run in wanted.each()]
    return sum(epochs > 0 for epochs in lacking), sum(max(epochs, 0) for epochs in lacking)


def sizes_text(results: TrainedResults) -> str:
    """Say how many runs the curves have and how long they are; ranges where they differ."""

    def span(numbers: set[int], thing: str) -> str:
        low, high = min(numbers), max(numbers)
        return (f"{low:,} to " if low < high else "") + counted(high, thing)

    seeds = {len(result.seeds) for result in results.values()}
    return f"{span(seeds, 'run')} of {span({len(each.k) for each in results.values()}, 'epoch')}"
