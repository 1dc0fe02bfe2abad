"""Trains the missing runs of Figure 3 on this machine, and keeps them epoch by epoch."""

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import torch

from heavystep.parquet import DamagedError
from heavystep.training import checkpoint
from heavystep.training.history import EpochRow
from heavystep.training.setup import (
    advice,
    chosen_kernels,
    compiling_pays,
    device_name,
    the_device,
    threads_for,
    trainer_of,
    versions,
)
from heavystep.training.specification import TrainingRuns, TrainingSpec
from heavystep.training.stopping import stopping
from heavystep.training.store import Stored, Stretch, TrainingStore
from heavystep.training.tensorboard_log import Log
from heavystep.training.trainer import DivergedError, Trainer

CHECKPOINT_SECONDS = 30.0
"""A checkpoint is written at the end of an epoch if the last one is older than this."""


class RunProgress(Protocol):
    """What a run reports while it is trained."""

    def advance(self, share: float) -> None:
        """This share of an epoch was done since the last call."""

    def epoch(self, row: EpochRow, images: int) -> None:
        """An epoch is complete; it had this many images."""


class TrainingProgress(RunProgress, Protocol):
    """What training reports, run after run."""

    def start(self, runs: int, kept: int, epochs: int) -> None:
        """There are ``runs`` runs; ``kept`` are complete, and the others take ``epochs`` epochs."""

    def note(self, text: str) -> None:
        """The user should read this text."""

    def begin(self, run: str) -> None:
        """The run of this name begins, or goes on."""

    def finish(self) -> None:
        """A run is complete and kept."""


@dataclass(frozen=True)
class How:
    """How runs are trained, as far as it does not decide their numbers."""

    device: str | None = None
    """``"cpu"`` or ``"cuda"``; None: the GPU if there is one."""
    tensorboard: Path | None = None
    """The folder of the logs for TensorBoard; None: there are no logs."""
    minutes: float | None = None
    """Training stops after this many minutes, with a checkpoint; None: it goes on to the end."""
    force: bool = False
    """Whether runs that are there are trained again."""
    no_compile: bool = False
    """Whether the network is left as it is even where compiling it would pay."""


def train_missing(
    curves: Iterable[TrainingRuns], store: TrainingStore, progress: TrainingProgress, how: How
) -> bool:
    """Train every run that does not reach its last epoch.

    All methods are trained with one seed before the next, so that they can be compared early. At
    SIGTERM, SIGINT or the end of the time a run leaves a checkpoint, and the next call goes on
    there. When a run diverges, the others are still trained.

    Returns:
        False if time ran out before all runs were complete.

    Raises:
        ValueError: data are missing or damaged, or a run diverged or cannot go on.
        KeyboardInterrupt: a signal came; its number is the argument.
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
    """A run that does not reach its last epoch."""

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
    """How many runs there are, and which have to be trained, seed by seed; starts the progress."""
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
    """How many epochs need not be trained again; none without a checkpoint to go on from."""
    return _epochs(run, store) if store.checkpoint(run).exists() else 0


class OneRun:
    """A run in progress, with its checkpoints and its stored epochs."""

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
        """Go on to the last epoch, and leave a checkpoint there or where it is stopped.

        Returns:
            False if it was stopped before the last epoch.

        Raises:
            DivergedError: the loss was not finite; the message names the last good checkpoint.
            ValueError: the batches do not fit into memory, or the checkpoint is of another run.
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
        """Load the checkpoint, if there is one, and return the stretches up to there."""
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
        """Write the checkpoint and the epochs; of a forced run nothing before its end.

        After a step without a finite loss no checkpoint is written, because the run has to go on
        from before such steps, and epochs are written only if the run is complete.
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
        """Write the epochs, unless more are stored already; those of a forced run in any case."""
        if self._how.force or len(trainer.history) > _epochs(self._run, self._store):
            self._store.save(self._run, Stored(trainer.history, stretches))
