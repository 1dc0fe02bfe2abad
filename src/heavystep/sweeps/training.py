"""Trains the missing runs of Figure 3 on many machines at once."""

from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import torch

from heavystep.sweeps.engines import Advance, Engine, Job
from heavystep.sweeps.output_folder import MARK
from heavystep.training.history import EpochRow
from heavystep.training.runner import How, OneRun, TrainingProgress, wanted_and_missing
from heavystep.training.setup import the_device
from heavystep.training.specification import TrainingRuns, TrainingSpec
from heavystep.training.stopping import Stopping
from heavystep.training.store import TrainingStore


def gpus_of(device: str | None) -> float:
    """How many GPUs a run needs on a device; without a name, on the device of this machine."""
    return 1.0 if (device or _here()) == "cuda" else 0.0


def _here() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def train_on(
    engine: Engine,
    curves: Iterable[TrainingRuns],
    store: TrainingStore,
    progress: TrainingProgress,
    how: How,
) -> None:
    """Train every run that does not reach its last epoch, each as a job of the engine.

    The machine that trains a run also writes its epochs and checkpoints, so that a run that loses
    its machine goes on elsewhere. All machines have to see the folder.

    Raises:
        ValueError: some runs failed; all others are complete and kept.
    """
    wanted, missing = wanted_and_missing(curves, store, progress, force=how.force)
    if not missing:  # a cluster takes long to start
        return
    # Absolute paths, because workers run in another folder.
    folder, logs = store.folder.absolute(), how.tensorboard and how.tensorboard.absolute()
    there = replace(how, device=how.device or _here(), tensorboard=logs)
    jobs = [
        Job(run.describe(), train_there, (run, epochs, folder, there), epochs_left)
        for run, epochs, epochs_left in missing
    ]
    failed = []
    with closing(engine.outcomes(jobs, progress)) as outcomes:
        for place, _, failure in outcomes:
            progress.begin(jobs[place].name)
            if failure:
                progress.note(f"{jobs[place].name} failed\n{failure}")
                failed.append(jobs[place].name)
            else:
                progress.finish()
    if failed:
        raise ValueError(f"{len(failed)} of {wanted} runs failed: {', '.join(failed)}")


def train_there(
    data: None, run: TrainingSpec, epochs: int, folder: Path, how: How, advance: Advance
) -> None:
    """Train a run on the machine that calls this: the job of an engine.

    Args:
        data: nothing, because images are read there.
        run: which run.
        epochs: to which epoch.
        folder: of the runs, which this machine must see, too.
        how: what does not decide the numbers.
        advance: told which share of an epoch was done since the last call.

    Raises:
        ValueError: this machine does not see the folder, or the run cannot go on.
    """
    out = folder.parent.parent
    if not (out / MARK).exists():
        raise ValueError(f"{out} is not on this machine: --out must be a path that all nodes see")
    progress, device = _Told(advance), the_device(how.device)
    OneRun(run, epochs, TrainingStore(folder), progress, how, device).train(Stopping())


class _Told:
    """A ``RunProgress`` that passes on how far a run is."""

    def __init__(self, advance: Advance) -> None:
        self.advance = advance

    def epoch(self, row: EpochRow, images: int) -> None:
        """Do nothing: the epochs are read from their file when the run is complete."""
