"""From a figure's name to its files: runs, pictures, tables, claims."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from heavystep.files import write_atomically
from heavystep.paper.claim import Claim
from heavystep.paper.figure import Figure
from heavystep.paper.figures import FIGURES
from heavystep.paper.plot import save, styled
from heavystep.paper.reproducible import Chosen, Reproducible
from heavystep.paper.table import Table
from heavystep.sweeps.output_folder import runs_folder


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
    figures: list[Figure[Any]]
    runs: dict[str, Any]
    chosen: Chosen


def plan(name: str, out: Path, *, quick: bool, chosen: Chosen) -> Plan:
    """What a figure needs; reads its data, so that a fault of theirs is told before all else.

    Args:
        name: one of :data:`FIGURES`.
        out: the output folder, in which nothing is written.
        quick: fewer runs and steps.
        chosen: among what the figure leaves to choose.

    Raises:
        ValueError: data are not here or damaged, or a choice is out of range or not the figure's.
    """
    known = FIGURES[name]
    for choice in chosen:
        if choice not in known.choices():
            others = [other for other, each in FIGURES.items() if choice in each.choices()]
            option = "--" + choice.replace("_", "-")
            raise ValueError(f"{name} has no {option}: it is for {' and '.join(others)} only")
    figures = known.figures(quick=quick, chosen=chosen, folder=runs_folder(out, name))
    runs = {key: run for figure in figures for key, run in figure.runs().items()}
    return Plan(name, figures, runs, chosen)


def reproduce(wanted: Plan, out: Path, progress: Any) -> Reproduction:
    """Run what is missing of a figure, draw it and evaluate its claims.

    Args:
        wanted: the figure.
        out: the output folder.
        progress: what the runs of its kind report to.

    Raises:
        UnfinishedError: time ran out before all runs were complete; nothing is drawn.
    """
    name, known = wanted.name, FIGURES[wanted.name]
    if wanted.figures[0].note:
        progress.note(wanted.figures[0].note)
    folder = runs_folder(out, name)
    results = known.complete(wanted.runs, folder, progress, wanted.chosen)
    claims: list[Claim] = []
    tables: list[Table] = []
    paths: list[Path] = []
    for figure in (each.only(results) for each in wanted.figures):
        paths += _pictures(known, figure, results, out)
        if known.table is not None:
            tables.append(known.table(figure, results))
            paths += tables[-1].save(out / name / f"table{figure.name.removeprefix(name)}")
        if not figure.companion:
            claims = known.claims(figure, results)
            paths.append(_save_claims(claims, out / name / "claims.json"))
    return Reproduction(claims, tables, paths)


def _pictures(
    known: Reproducible, figure: Figure[Any], results: dict[str, Any], out: Path
) -> list[Path]:
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


def evaluate_claims(out: Path, note: Callable[[str], None]) -> list[Claim]:
    """The claims of every figure under ``out``, evaluated anew on its stored runs.

    Raises:
        ValueError: no figure's runs suffice, for the present mathematics.
    """
    claims = [
        replace(claim, id=f"{name}.{claim.id}")
        for name, known in FIGURES.items()
        for claim in known.evaluated(name, runs_folder(out, name), note)
    ]
    if not claims:
        raise ValueError(f"nothing to evaluate under {out}: run heavystep reproduce first")
    return claims
