"""Reads training runs back, and makes curves of the seeds that reach an epoch."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from heavystep import parquet
from heavystep.arrays import Array
from heavystep.parquet import DamagedError
from heavystep.records import Trajectories
from heavystep.training.history import EpochRow
from heavystep.training.specification import TrainingRuns, TrainingSpec, counted, parsed
from heavystep.training.store import Stored, Stretch, TrainingStore

METRICS = EpochRow._fields[1:]
Note = Callable[[str], None]


@dataclass(frozen=True)
class TrainedCurve(Trajectories):
    """The epochs of each seed that is there, and where they were made."""

    stretches: tuple[Stretch, ...] = ()
    unfinished: tuple["Unfinished", ...] = ()
    """Runs that end before the others: no part of the means, but to be seen."""


class Unfinished(NamedTuple):
    """The epochs of a run that was stopped."""

    seed: int
    metrics: dict[str, Array]
    """Its epochs, from the first on."""


TrainedResults = dict[str, TrainedCurve]
"""Curves by the key of :class:`TrainingRuns`."""


def curves(runs: dict[str, TrainingRuns], store: TrainingStore, note: Note) -> TrainedResults:
    """The curves, each made of the seeds that reach its last epoch. One without any is left out.

    Args:
        runs: by key.
        store: where they are kept.
        note: told which files are damaged and left out, and which runs end early.
    """
    found = {key: _curve(wanted, store, note) for key, wanted in runs.items()}
    return {key: curve for key, curve in found.items() if curve is not None}


def _curve(wanted: TrainingRuns, store: TrainingStore, note: Note) -> TrainedCurve | None:
    parts: dict[int, Stored] = {}
    unfinished = []
    for run in wanted.each():
        stored = whole(run, store, note)
        if stored is not None and stored.epochs >= wanted.epochs:
            parts[run.seed] = stored
        elif stored is not None and stored.epochs:
            note(
                f"{run.describe()} has {stored.epochs} of {wanted.epochs} epochs and does not count"
            )
            unfinished.append(Unfinished(run.seed, _metrics([stored], stored.epochs)))
    if not parts:
        return None
    return TrainedCurve(
        np.arange(1, wanted.epochs + 1),
        tuple(parts),
        _metrics(parts.values(), wanted.epochs),
        stretches=tuple(
            stretch
            for part in parts.values()
            for stretch in part.stretches
            if stretch.first <= wanted.epochs
        ),
        unfinished=tuple(unfinished),
    )


def _metrics(parts: Iterable[Stored], epochs: int) -> dict[str, Array]:
    """(seeds, epochs) numbers by name."""
    rows = np.array([part.history[:epochs] for part in parts], dtype=np.float64)
    return {name: rows[:, :, EpochRow._fields.index(name)] for name in METRICS}


def whole(run: TrainingSpec, store: TrainingStore, note: Note) -> Stored | None:
    """The stored epochs of a run; a damaged file is noted and counts as none."""
    try:
        return store.load(run)
    except DamagedError as damage:
        note(f"{damage}; it is left out")
        return None


def opened(path: Path, store: TrainingStore) -> tuple[TrainingSpec, Stored]:
    """Read a file as the run that it says it is.

    Raises:
        DamagedError: the file cannot be read, is no run of this protocol, or not the one that its
            name says.
    """
    text = parquet.specification(path)
    if text is None:
        raise DamagedError(f"{path.name} cannot be read")
    try:
        run = parsed(text)
    except ValueError as error:
        raise DamagedError(f"{path.name} is {error}") from None
    stored = store.load(run) if store.path(run) == path else None
    if stored is None:
        raise DamagedError(f"{path.name} is not the run that its name says")
    return run, stored


def survey(store: TrainingStore, note: Note) -> Iterator[tuple[TrainingSpec, Stored]]:
    """All runs with their stored epochs; a file that is no whole run is noted and left out."""
    for path in sorted(store.folder.glob(f"*{parquet.ENDING}")):
        try:
            yield opened(path, store)
        except DamagedError as damage:
            note(f"{damage}; it is left out")


def missing(runs: Iterable[TrainingRuns], store: TrainingStore) -> tuple[int, int]:
    """How many runs are incomplete, and how many epochs they lack. Damaged files have no epochs."""
    lacking = []
    for wanted in runs:
        for run in wanted.each():
            stored = whole(run, store, lambda text: None)
            lacking.append(wanted.epochs - (stored.epochs if stored else 0))
    return sum(epochs > 0 for epochs in lacking), sum(max(epochs, 0) for epochs in lacking)


def sizes_text(results: TrainedResults) -> str:
    """Say how many runs the curves have and how long they are; ranges where they differ.

    Args:
        results: at least one curve.
    """
    seeds, epochs = (
        _range({len(each) for each in numbers}, thing)
        for numbers, thing in (
            ([result.seeds for result in results.values()], "run"),
            ([result.k for result in results.values()], "epoch"),
        )
    )
    return f"{seeds} of {epochs}"


def _range(numbers: set[int], thing: str) -> str:
    low, high = min(numbers), max(numbers)
    return (f"{low:,} to " if low < high else "") + counted(high, thing)
