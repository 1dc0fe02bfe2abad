"""Training runs on disk: one Parquet file each with a row for every epoch done so far."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from heavystep.experiments import parquet
from heavystep.experiments.parquet import DamagedError
from heavystep.experiments.training_spec import TrainingSpec
from heavystep.training.history import EpochRow, History

STRETCHES = "stretches"
"""The note that says where and when the epochs of a run were made."""


@dataclass(frozen=True)
class Stretch:
    """Epochs made in one go on one machine."""

    first: int
    last: int
    device: str
    precision: str
    versions: str
    seconds: float
    """Wall time, with what goes before the first epoch."""
    compiled: bool = False
    """Whether the network was: its numbers differ by rounding."""


class Stored(NamedTuple):
    """A run as far as it was made."""

    history: History
    stretches: tuple[Stretch, ...]

    @property
    def epochs(self) -> int:
        """How many are there."""
        return len(self.history)


@dataclass(frozen=True)
class TrainingStore:
    """The runs of one figure, under ``folder``."""

    folder: Path

    def path(self, run: TrainingSpec) -> Path:
        """Where the epochs of a run are kept."""
        return self.folder / f"{run.key()}{parquet.ENDING}"

    def checkpoint(self, run: TrainingSpec) -> Path:
        """Where its network and optimizer are kept, to go on with."""
        return self.folder.parent / "checkpoints" / f"{run.key()}.pt"

    def save(self, run: TrainingSpec, stored: Stored) -> None:
        """Keep what there is of a run."""
        whole = ("epoch", "refused")
        columns = {
            name: np.asarray(values, dtype=np.int64 if name in whole else np.float64)
            for name, values in zip(
                EpochRow._fields, zip(*stored.history, strict=True), strict=True
            )
        }
        notes = {STRETCHES: json.dumps([asdict(stretch) for stretch in stored.stretches])}
        parquet.write(self.path(run), run.text(), columns, notes)

    def load(self, run: TrainingSpec) -> Stored | None:
        """What there is of a run, None if there is nothing.

        Raises:
            DamagedError: the file cannot be read or is not this run.
        """
        path = self.path(run)
        found = parquet.read(path, run.text())
        if found is None:
            return None
        columns, notes = found
        if tuple(columns) != EpochRow._fields:
            raise DamagedError(f"{path.name} does not have all columns")
        rows = zip(*(columns[name].tolist() for name in EpochRow._fields), strict=True)
        history = [EpochRow(*row) for row in rows]
        if [row.epoch for row in history] != list(range(1, len(history) + 1)):
            raise DamagedError(f"{path.name} does not have all epochs")
        try:
            stretches = tuple(Stretch(**each) for each in json.loads(notes[STRETCHES]))
        except (KeyError, TypeError, ValueError):
            raise DamagedError(f"{path.name} does not say where it was made") from None
        return Stored(history, stretches)
