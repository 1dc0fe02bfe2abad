"""Trains what is missing of Figure 3 and keeps it, epoch by epoch."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from heavystep.experiments.training_spec import TrainingRuns
from heavystep.experiments.training_store import TrainingStore
from heavystep.training.history import EpochRow


class TrainingProgress(Protocol):
    """What training tells while it runs."""

    def start(self, runs: int, kept: int, epochs: int) -> None:
        """How much there is to do: runs, those already complete, epochs of the others."""

    def note(self, text: str) -> None:
        """Something that the user should know."""

    def begin(self, run: str) -> None:
        """A run begins, or goes on."""

    def advance(self, share: float) -> None:
        """A part of an epoch was done since the last call."""

    def epoch(self, row: EpochRow, images: int) -> None:
        """An epoch of so many images is complete."""

    def finish(self) -> None:
        """A run is complete and kept."""


@dataclass(frozen=True)
class How:
    """What does not decide the numbers."""

    device: str | None = None
    """None: the GPU if there is one."""
    tensorboard: Path | None = None
    """Where to log; None: nowhere."""
    minutes: float | None = None
    """Stop after so long, with a checkpoint."""
    force: bool = False
    """Train again what is there."""


def train_missing(
    curves: Iterable[TrainingRuns], store: TrainingStore, progress: TrainingProgress, how: How
) -> bool:
    """Train every run that is not there to its last epoch; False if time ran out before.

    Raises:
        ValueError: data are not here or damaged, or a run cannot go on.
    """
    raise NotImplementedError
