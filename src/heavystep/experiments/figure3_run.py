"""Trains what is missing of Figure 3 and keeps it, epoch by epoch."""

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import torch

from heavystep.experiments.parquet import DamagedError
from heavystep.experiments.tensorboard_log import Log
from heavystep.experiments.training_setup import (
    advice,
    chosen_kernels,
    compiling_pays,
    device_name,
    the_device,
    threads_for,
    trainer_of,
    versions,
)
from heavystep.experiments.training_spec import TrainingRuns, TrainingSpec
from heavystep.experiments.training_store import Stored, Stretch, TrainingStore
from heavystep.training import checkpoint
from heavystep.training.history import EpochRow
from heavystep.training.stopping import stopping
from heavystep.training.trainer import DivergedError, Trainer

CHECKPOINT_SECONDS = 30.0
"""An epoch that ends so long after the last checkpoint writes one: a few epochs on a fast GPU."""


class RunProgress(Protocol):
    """What a run tells while it is trained."""

    def advance(self, share: float) -> None:
        """A part of an epoch was done since the last call."""

    def epoch(self, row: EpochRow, images: int) -> None:
        """An epoch of so many images is complete."""


class TrainingProgress(RunProgress, Protocol):
    """What training tells while it runs."""

    def start(self, runs: int, kept: int, epochs: int) -> None:
        """How much there is to do: runs, those already complete, epochs of the others."""

    def note(self, text: str) -> None:
        """Something that the user should know."""

    def begin(self, run: str) -> None:
        """A run begins, or goes on."""

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
    no_compile: bool = False
    """Do not compile the network where that would pay."""


def train_missing(
    curves: Iterable[TrainingRuns], store: TrainingStore, progress: TrainingProgress, how: How
) -> bool:
    """Train every run that is not there to its last epoch; False if time ran out before.

    Seed by seed, so that all methods can be compared as soon as possible. At SIGTERM, SIGINT or
    the end of its time a run leaves a checkpoint, and the next call goes on there. A run that
    diverges does not keep the others from being trained.

    Raises:
        ValueError: data are not here or damaged, or a run diverged or cannot go on.
        KeyboardInterrupt: a signal came, which it holds.
    """
    device = the_device(how.device)
    wanted, missing = wanted_and_missing(curves, store, progress, force=how.force)
    diverged, complete = [], True
    with stopping(how.minutes) as stop:
        for run, epochs, _ in missing:
            progress.begin(run.describe())
            try:
                complete = OneRun(run, epochs, store, progress, how, device).train(stop)
            except DivergedError as error:
                progress.note(str(error))
                diverged.append(run.describe())
                continue
            if not complete:
                break
            progress.finish()
    if stop.signal is not None and not complete:
        raise KeyboardInterrupt(int(stop.signal))
    if diverged and complete:
        raise ValueError(f"{len(diverged)} of {wanted} runs diverged: {', '.join(diverged)}")
    return complete


class Missing(NamedTuple):
    """A run that is not there to its last epoch."""

    run: TrainingSpec
    epochs: int
    epochs_left: int


def wanted_and_missing(
    curves: Iterable[TrainingRuns],
    store: TrainingStore,
    progress: TrainingProgress,
    *,
    force: bool,
) -> tuple[int, list[Missing]]:
    """How many runs there are, and those that have to be trained, seed by seed; it is told."""
    wanted = [(run, curve.epochs) for curve in curves for run in curve.each()]
    wanted.sort(key=lambda pair: (pair[0].data_set, pair[0].seed))
    missing = [
        Missing(run, epochs, epochs - (0 if force else _begun(run, store)))
        for run, epochs in wanted
        if force or _epochs(run, store) < epochs
    ]
    left = sum(each.epochs_left for each in missing)
    progress.start(len(wanted), len(wanted) - len(missing), left)
    return len(wanted), missing


def _epochs(run: TrainingSpec, store: TrainingStore) -> int:
    try:
        stored = store.load(run)
    except DamagedError:
        return 0
    return 0 if stored is None else stored.epochs


def _begun(run: TrainingSpec, store: TrainingStore) -> int:
    """Epochs that need not be trained again, because there is a checkpoint to go on from."""
    return _epochs(run, store) if store.checkpoint(run).exists() else 0


class OneRun:
    """A run in progress, its checkpoints and what is kept of it."""

    def __init__(
        self,
        run: TrainingSpec,
        epochs: int,
        store: TrainingStore,
        progress: RunProgress,
        how: How,
        device: torch.device,
    ) -> None:
        self._run, self._store, self._progress, self._how = run, store, progress, how
        self._epochs, self._device = epochs, device
        self._begin = self._kept = time.perf_counter()

    def train(self, stop: Callable[[], bool]) -> bool:
        """Go on to the last epoch; False if stopped before. Both leave a checkpoint.

        Raises:
            DivergedError: the message says where the last good checkpoint is.
            ValueError: the batches do not fit, or the checkpoint is not this run's.
        """
        with chosen_kernels(), threads_for(self._run.scale.network):
            return self._trained_or_explained(stop)

    def _trained_or_explained(self, stop: Callable[[], bool]) -> bool:
        compiled = not self._how.no_compile and compiling_pays(self._run, self._device)
        try:
            return self._trained(trainer_of(self._run, self._device, compiled), stop)
        except DivergedError as error:
            kept = self._store.checkpoint(self._run)
            left = f"the last good checkpoint is {kept}" if kept.exists() else "no checkpoint yet"
            raise DivergedError(f"{self._run.describe()}: {error}; {left}") from None
        except torch.OutOfMemoryError:
            pass  # its traceback holds the tensors; ask for advice when they are gone
        raise ValueError(advice(self._run, self._device))

    def _trained(self, trainer: Trainer, stop: Callable[[], bool]) -> bool:
        before = self._resumed(trainer)
        log = Log(self._how.tensorboard, self._run.describe().replace(" ", "_"))
        try:
            while len(trainer.history) < self._epochs:
                row = trainer.epoch(stop, self._progress.advance)
                if row is None:
                    self._keep(trainer, before)
                    return False
                since, complete = time.perf_counter() - self._kept, row.epoch == self._epochs
                if since >= CHECKPOINT_SECONDS or complete:
                    self._keep(trainer, before, complete)
                log.add(row)
                self._progress.epoch(row, trainer.images_per_epoch)
        finally:
            log.close()
        return True

    def _identity(self, trainer: Trainer) -> str:
        return json.dumps({**json.loads(self._run.text()), "precision": trainer.precision})

    def _resumed(self, trainer: Trainer) -> tuple[Stretch, ...]:
        """Put the trainer where the checkpoint is; the stretches up to there."""
        if self._how.force:
            return ()
        state = checkpoint.load(self._store.checkpoint(self._run), self._identity(trainer))
        if state is None:
            return ()
        trainer.load_state_dict(state["trainer"])
        stretches = tuple(Stretch(**each) for each in state["stretches"])
        self._save_epochs(trainer, stretches)  # which a kill may have kept from being written
        return stretches

    def _keep(self, trainer: Trainer, before: tuple[Stretch, ...], complete: bool = False) -> None:
        """Write checkpoint and epochs, but of a forced run nothing before its end.

        After a step without a finite loss there is no checkpoint, since a run is to go on from
        before such steps, and epochs are written only if all are there.
        """
        bad = trainer.meter.in_a_streak()
        if (bad or self._how.force) and not complete:
            return
        self._kept = time.perf_counter()
        stretches = before
        last, first = len(trainer.history), before[-1].last + 1 if before else 1
        if last >= first:
            seconds = time.perf_counter() - self._begin
            stretches += (
                Stretch(first, last, device_name(self._device), trainer.precision, versions(),
                        round(seconds, 3), trainer.compiled),
            )  # fmt: skip
        if not bad:
            state = {
                "trainer": trainer.state_dict(),
                "stretches": [asdict(stretch) for stretch in stretches],
            }
            checkpoint.save(self._store.checkpoint(self._run), self._identity(trainer), state)
        self._save_epochs(trainer, stretches)

    def _save_epochs(self, trainer: Trainer, stretches: tuple[Stretch, ...]) -> None:
        """Keep the epochs, unless there are more already; those of a forced run in any case."""
        if self._how.force or len(trainer.history) > _epochs(self._run, self._store):
            self._store.save(self._run, Stored(trainer.history, stretches))
