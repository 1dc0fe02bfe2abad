"""From a figure's name to its files: runs, picture, claims."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from heavystep.experiments.claim import Claim
from heavystep.experiments.figures import FIGURES, Reproducible
from heavystep.experiments.plot_style import save, styled
from heavystep.experiments.runner import Progress, Results, complete, kept
from heavystep.experiments.specification import Figure, RunSpec
from heavystep.experiments.store import Store
from heavystep.experiments.table import Table
from heavystep.files import TEMPORARY, write_atomically

MARK = ".heavystep"
"""A file that says that a folder is ours."""
ORPHANED = 3600.0
"""Seconds after which a temporary file has no owner."""


@dataclass(frozen=True)
class Reproduction:
    """What was written, and what holds."""

    claims: list[Claim]
    tables: list[Table]
    paths: list[Path]


@dataclass(frozen=True)
class Plan:
    """A figure with its companions, and their runs by key."""

    name: str
    figures: list[Figure]
    runs: dict[str, RunSpec]


def plan(name: str, sizes: dict[str, int], max_step: float | None = None) -> Plan:
    """What a figure needs; reads its data, so that a fault of theirs is told before all else.

    Args:
        name: one of :data:`FIGURES`.
        sizes: of the runs.
        max_step: where it can be chosen; None: the paper's and the companion's.

    Raises:
        ValueError: data are not here or damaged, or an argument is out of range.
    """
    figures = FIGURES[name].figures(sizes, max_step)
    runs = {key: run for figure in figures for key, run in figure.runs().items()}
    return Plan(name, figures, runs)


def reproduce(
    wanted: Plan, out: Path, progress: Progress, *, jobs: int | None, force: bool
) -> Reproduction:
    """Run what is missing of a figure, draw it and evaluate its claims."""
    name, known = wanted.name, FIGURES[wanted.name]
    if wanted.figures[0].note:
        progress.note(wanted.figures[0].note)
    store = Store(out / name / "runs")
    results = complete(wanted.runs, store, progress, jobs=jobs, force=force)
    claims: list[Claim] = []
    tables: list[Table] = []
    paths: list[Path] = []
    for figure in wanted.figures:
        paths += _pictures(known, figure, results, out)
        if known.table is not None:
            tables.append(known.table(figure, results))
            paths += tables[-1].save(out / name / f"table{figure.name.removeprefix(name)}")
        if not figure.companion:
            claims = known.claims(figure, results)
            paths.append(_save_claims(claims, out / name / "claims.json"))
    return Reproduction(claims, tables, paths)


def _pictures(known: Reproducible, figure: Figure, results: Results, out: Path) -> list[Path]:
    with styled():
        return [
            path
            for name, canvas in known.pictures(figure, results).items()
            for path in save(canvas, out / name)
        ]


def _save_claims(claims: list[Claim], path: Path) -> Path:
    text = json.dumps([claim.as_json() for claim in claims], indent=1, allow_nan=False) + "\n"
    write_atomically(path, lambda part: part.write_text(text))
    return path


def claim_folder(out: Path) -> None:
    """Make the output folder ours, or refuse one that holds something else or is not writable."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        if (
            not all(path.name.startswith(MARK) for path in out.iterdir())
            and not (out / MARK).exists()
        ):
            raise ValueError(f"{out} holds other files: give an empty or new folder with --out")
        write_atomically(out / MARK, lambda part: part.write_text("made by heavystep reproduce\n"))
        _sweep(out)
    except OSError as error:
        reason = error.strerror or os.strerror(error.errno or 0)
        raise ValueError(f"cannot write to {out}: {reason}") from None


def _sweep(out: Path) -> None:
    """Remove what a killed process left half-written, long enough ago that none writes it now."""
    for path in out.rglob(".*"):
        ours = TEMPORARY.fullmatch(path.name) and path.is_file()
        if ours and time.time() - path.stat().st_mtime > ORPHANED:
            path.unlink(missing_ok=True)


def evaluate_claims(out: Path, note: Callable[[str], None]) -> list[Claim]:
    """The claims of every figure under ``out``, evaluated anew on its stored runs.

    Where runs of several sizes are there, those with the most steps count.

    Raises:
        ValueError: no figure's runs are complete, for the present mathematics.
    """
    claims: list[Claim] = []
    for name in FIGURES:
        store = Store(out / name / "runs")
        for sizes in sorted(store.sizes(), key=lambda size: -size["seeds"] * size["iterations"]):
            found = _evaluated(name, sizes, store, note)
            if found:
                claims += [replace(claim, id=f"{name}.{claim.id}") for claim in found]
                break
    if not claims:
        raise ValueError(f"nothing to evaluate under {out}: run heavystep reproduce first")
    return claims


def _evaluated(
    name: str, sizes: dict[str, int], store: Store, note: Callable[[str], None]
) -> list[Claim]:
    """The claims of one figure; none, and a note, if runs or the data are missing."""
    size = f"{name}: {sizes['seeds']} runs of {sizes['iterations']:,} steps"
    try:
        paper, *_ = FIGURES[name].figures(sizes)
        runs = paper.runs()
    except ValueError as error:
        note(f"{size} cannot be evaluated: {error}")
        return []
    results = kept(runs, store, note)
    if len(results) < len(runs):
        note(f"{size}: only {len(results)} of {len(runs)} methods and problems are there")
        return []
    note(f"{size}; {paper.note}" if paper.note else size)
    return FIGURES[name].claims(paper, results)
