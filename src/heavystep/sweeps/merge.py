"""Brings runs that were made on several machines into one output folder."""

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from heavystep import parquet
from heavystep.files import permissions, write_atomically
from heavystep.parquet import DamagedError
from heavystep.sweeps.output_folder import MARK, claim_folder, runs_folder
from heavystep.training.history import EpochRow
from heavystep.training.results import opened
from heavystep.training.specification import TrainingSpec, parsed
from heavystep.training.store import Stored, TrainingStore

TIMING = EpochRow._fields.index("seconds")
"""The column in which two histories of the same run may differ."""
FILES = runs_folder(Path(), "*") / f"*{parquet.ENDING}"


@dataclass
class Merged:
    """How many files of a source were copied, left alone, or left out because of damage."""

    copied: int = 0
    left_alone: int = 0
    damaged: int = 0


def merge(sources: Iterable[Path], out: Path, note: Callable[[str], None]) -> dict[Path, Merged]:
    """Copy the runs of other output folders to this one. Of a training run the longer one stays.

    Each file is read whole and then written in one step. Stopped at any moment, this leaves whole
    files, and a new call does the rest.

    Args:
        sources: output folders.
        out: the output folder they are merged into.
        note: told which files are damaged, or contradict each other.

    Raises:
        ValueError: a source is not an output folder, or ``out`` holds files of others.
    """
    sources = list(sources)
    for source in sources:
        if not (source / MARK).exists() and not any(source.glob(str(FILES))):
            raise ValueError(f"{source} is not an output folder of heavystep")
    claim_folder(out)
    return {source: _merge(source, out, note) for source in sources}


def _merge(source: Path, out: Path, note: Callable[[str], None]) -> Merged:
    merged = Merged()
    for path in sorted(source.glob(str(FILES))):
        target = out / path.relative_to(source)
        try:
            copied = _training(path, target, note) if _grows(path) else _plain(path, target, note)
        except DamagedError as damage:
            note(f"{source}: {damage}; it is left out")
            merged.damaged += 1
            continue
        merged.copied += copied
        merged.left_alone += not copied
    for path in sorted(source.glob("*/checkpoints/*.pt")):
        if path.is_symlink():  # to whatever: what it holds would be published with the results
            note(f"{source}: {path.name} is a link; it is left out")
            merged.damaged += 1
            continue
        merged.copied += _first_epoch(path, out / path.relative_to(source))
    return merged


def _first_epoch(path: Path, target: Path) -> bool:
    """Copy the checkpoint of a run that was stopped in its first epoch, where there is none."""
    runs = [runs_folder(each.parents[2], each.parents[1].name) for each in (path, target)]
    begun = any((folder / f"{path.stem}{parquet.ENDING}").exists() for folder in runs)
    if begun or target.exists():
        return False
    _copy(path, target)
    return True


def _copy(path: Path, target: Path) -> None:
    """Copy a file, for the eyes of those who may read the original."""
    write_atomically(target, lambda part: shutil.copyfile(path, part), permissions(path))


def _grows(path: Path) -> bool:
    """Whether a file is a training run of this protocol."""
    try:
        parsed(parquet.specification(path) or "")
    except ValueError:
        return False
    return True


def _plain(path: Path, target: Path, note: Callable[[str], None]) -> bool:
    """Copy the file of a simulated run; False if it is there."""
    _check(path)
    if target.exists():
        try:
            _check(target)
        except DamagedError as damage:
            note(f"{target.parent}: {damage}; it is replaced")
        else:
            return False
    _copy(path, target)
    return True


def _check(path: Path) -> None:
    specification = parquet.specification(path)
    if specification is None:
        raise DamagedError(f"{path.name} cannot be read")
    parquet.read(path, specification)


def _training(path: Path, target: Path, note: Callable[[str], None]) -> bool:
    """Copy a training run with its checkpoint; False if what is there is as long or longer."""
    source, store = TrainingStore(path.parent), TrainingStore(target.parent)
    run, stored = opened(path, source)
    try:
        present = store.load(run)
    except DamagedError as damage:
        note(f"{target.parent}: {damage}; it is replaced")
        present = None
    if present is not None and present.epochs >= stored.epochs:
        if present.epochs > stored.epochs:
            return False
        if not _same(present, stored):
            note(f"{run.describe()}: {path} has other numbers; those in {store.folder} stay")
            return False
        if store.checkpoint(run).exists() or not source.checkpoint(run).exists():
            return False
    # The checkpoint first: stopped in between, the shorter history is found again the next time.
    _checkpoint(run, source, store)
    store.save(run, stored)
    return True


def _checkpoint(run: TrainingSpec, source: TrainingStore, store: TrainingStore) -> None:
    """Copy the checkpoint of the run. If there is none, an older one stays, with its history."""
    path, target = source.checkpoint(run), store.checkpoint(run)
    if path.exists() and not path.is_symlink():
        _copy(path, target)


def _same(one: Stored, other: Stored) -> bool:
    """Whether two histories have the same numbers, except for the time that epochs took."""
    rows, other_rows = (
        np.delete(np.array(each.history, dtype=np.float64), TIMING, axis=1) for each in (one, other)
    )
    return np.array_equal(rows, other_rows, equal_nan=True)
