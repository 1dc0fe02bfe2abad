"""Training runs on disk: one Parquet file for each run, with a row for every epoch so far."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from heavystep import parquet
from heavystep.parquet import DamagedError
from heavystep.training.history import EpochRow, History
from heavystep.training.specification import TrainingSpec

STRETCHES = "stretches"
"""The name of the note that says where the epochs of a run were made."""


@dataclass(frozen=True)
class Stretch:
    """Epochs that were made in one go on one machine."""

    first: int
    last: int
    device: str
    precision: str
    versions: str
    seconds: float
    """The wall time, including what comes before the first of the epochs."""
    compiled: bool = False
    """Whether the network was compiled, which changes its numbers by rounding."""


class Stored(NamedTuple):
    """The epochs of a run so far, and where they were made."""

    history: History
    stretches: tuple[Stretch, ...]

    @property
    def epochs(self) -> int:
        """The number of epochs."""
        return len(self.history)


@dataclass(frozen=True)
class TrainingStore:
    """The training runs in one folder."""

    folder: Path

    def path(self, run: TrainingSpec) -> Path:
        """The file of a run."""
        return self.folder / f"{run.key()}{parquet.ENDING}"

    def checkpoint(self, run: TrainingSpec) -> Path:
        """The file with the network and the optimizer, from which the run can go on."""
        return self.folder.parent / "checkpoints" / f"{run.key()}.pt"

    def save(self, run: TrainingSpec, stored: Stored) -> None:
        """Write the file of a run."""
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
        """The stored epochs of a run, or None if there is no file.

        Raises:
            DamagedError: the file cannot be read, or is not this run.
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
