"""Reads a results folder: which parts it has, and the runs, claims and tables of each."""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from heavystep import parquet
from heavystep.arrays import Array
from heavystep.parquet import DamagedError
from heavystep.report.described import Description, described

RUNS, CLAIMS = "runs", "claims.json"
KEYS = ("seed", "k", "epoch")
LARGEST_TABLE = 400
"""Tables with more rows than this are left to the programs that read them."""


@dataclass(frozen=True)
class Run:
    """The runs of one method on one problem, from several seeds."""

    about: Description
    k: Array
    """(G,) numbers of steps or epochs."""
    seeds: tuple[int, ...]
    metrics: dict[str, Array]
    """(seeds, G) each, by name; NaN where a run has no number."""
    seconds: tuple[float, ...] = ()
    made_on: tuple[str, ...] = ()
    """Devices and versions, where the run remembers them."""


@dataclass(frozen=True)
class Part:
    """A folder within the results: a figure, a sweep, a comparison or a sensitivity."""

    name: str
    folder: Path
    runs: list[Run] = field(default_factory=list)
    claims: list[dict[str, Any]] = field(default_factory=list)
    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """What could not be read."""


def read_results(folder: Path) -> list[Part]:
    """All parts of a results folder.

    Args:
        folder: what ``--out`` named, or a folder within it.

    Raises:
        ValueError: there is no such folder, or it holds no results.
    """
    if not folder.is_dir():
        raise ValueError(
            f"there is no folder {folder}: name one that another command wrote, such as "
            "heavystep reproduce figure1 --quick --out results"
        )
    inner = sorted(path for path in folder.iterdir() if path.is_dir() and path.name != RUNS)
    deeper = sorted(path for each in inner for path in each.iterdir() if path.is_dir())
    parts = [read_part(path) for path in (folder, *inner, *deeper) if path.name != RUNS]
    found = [part for part in parts if part.runs or part.claims or part.tables or part.notes]
    if not found:
        raise ValueError(f"{folder} holds no runs, claims or tables of heavystep")
    return found


def read_part(folder: Path) -> Part:
    """One folder: its runs, claims and tables; what is damaged is named in the notes."""
    part = Part(folder.resolve().name, folder)
    files = sorted((folder / RUNS).glob(f"*{parquet.ENDING}"))
    read = []
    for path in files:
        try:
            read.append(_read(path))
        except (DamagedError, ValueError) as error:
            reason = str(error)
            reason = reason if path.name in reason else f"{path.name}: {reason}"
            part.notes.append(f"{reason}; it is left out")
        except (ArithmeticError, LookupError, RecursionError, TypeError):
            part.notes.append(f"{path.name} holds no run of this package; it is left out")
    part.runs.extend(_merged(read))
    if (folder / CLAIMS).is_file():
        _add_claims(part)
    # A folder of somebody else may hold tables too.
    if files or part.claims or (folder / "README.md").is_file():
        for path in sorted(folder.glob("*.csv")):
            _add_table(part, path)
    return part


def _read(path: Path) -> Run:
    text = parquet.specification(path)
    if text is None:
        raise DamagedError(f"{path.name} cannot be read")
    about = described(text)
    found = parquet.read(path, text)
    assert found is not None
    columns, notes = found
    numbers = {name: values.astype(float) for name, values in columns.items() if name not in KEYS}
    drawn = columns["seed"].tolist() if "seed" in columns else [about.seed or 0]
    seeds = tuple(int(seed) for seed in dict.fromkeys(drawn))
    k = columns["epoch" if about.unit == "epoch" else "k"].reshape(len(seeds), -1)[0]
    metrics = {name: values.reshape(len(seeds), -1) for name, values in numbers.items()}
    seconds = tuple(float(each) for each in json.loads(notes.get("seconds", "[]")))
    return Run(about, k.astype(float), seeds, metrics, seconds, _made_on(notes))


def _made_on(notes: dict[str, str]) -> tuple[str, ...]:
    stretches = json.loads(notes.get("stretches", "[]"))
    return tuple(
        dict.fromkeys(
            f"{each.get('device')}, {each.get('precision')}, {each.get('versions')}"
            for each in stretches
            if isinstance(each, dict)
        )
    )


def _merged(runs: list[Run]) -> Iterator[Run]:
    """Runs with a file for each seed, side by side; the shorter ones end in NaN."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.about.identity(), []).append(run)
    for group in groups.values():
        group.sort(key=lambda run: run.seeds)
        longest = max(group, key=lambda run: len(run.k))
        names = [name for name in longest.metrics if all(name in run.metrics for run in group)]
        yield Run(
            longest.about,
            longest.k,
            tuple(seed for run in group for seed in run.seeds),
            {
                name: np.concatenate([_padded(run.metrics[name], len(longest.k)) for run in group])
                for name in names
            },
            tuple(second for run in group for second in run.seconds),
            tuple(dict.fromkeys(where for run in group for where in run.made_on)),
        )


def _padded(values: Array, length: int) -> Array:
    return np.pad(values, ((0, 0), (0, length - values.shape[1])), constant_values=np.nan)


def _add_claims(part: Part) -> None:
    path = part.folder / CLAIMS
    try:
        found = json.loads(path.read_text())
        part.claims.extend(
            {
                "id": str(claim["id"]),
                "text": str(claim["text"]),
                "holds": claim["holds"] is True,
                "measured": {str(name): value for name, value in claim["measured"].items()},
            }
            for claim in found
        )
    except (OSError, AttributeError, KeyError, RecursionError, TypeError, ValueError):
        part.notes.append(f"{path.name} is not a list of claims; it is left out")


def _add_table(part: Part, path: Path) -> None:
    try:
        with path.open(newline="") as lines:
            rows = [row for row in csv.reader(lines) if row]
    except (OSError, UnicodeDecodeError, csv.Error):
        part.notes.append(f"{path.name} cannot be read as a table; it is left out")
        return
    if len(rows) - 1 > LARGEST_TABLE:
        part.notes.append(f"{path.name} has {len(rows) - 1:,} rows and is not shown")
    elif rows:
        part.tables[path.name] = rows
