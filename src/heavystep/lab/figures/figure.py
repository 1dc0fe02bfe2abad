"""A figure of the paper: what it shows and claims, and the way from its name to its files."""

import csv
import inspect
import io
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from heavystep import validation
from heavystep.lab.plot import save, styled
from heavystep.lab.store import RUNS, claim_folder, expanded, write_atomically
from heavystep.lab.sweeps import Progress

FIGURES = ("figure1", "figure2", "figure3")
LARGEST = 10**10  # sizes above this are refused as slips of the keyboard
PAPER, PROJECT = "paper", "project"
"""Who claims: the paper in its words, or this project, which checks more than the paper says."""
CLAIMS = "claims.json"


@dataclass(frozen=True)
class Claim:
    """One claim, whether it holds, and the numbers that decide it."""

    id: str
    text: str
    holds: bool
    measured: dict[str, float]
    of: str = PAPER
    judged: bool = True  # whether it has to hold; it need not where the runs are too small for it

    def as_json(self) -> dict[str, Any]:
        measured = {
            name: float(f"{value:.6g}") if np.isfinite(value) else str(value)
            for name, value in self.measured.items()
        }
        fields = {"id": self.id, "of": self.of, "text": self.text, "holds": self.holds}
        return {**fields, "measured": measured, **({} if self.judged else {"judged": False})}


@dataclass(frozen=True)
class Table:
    """A figure's numbers: all of them for the file, and the lines that fit on a terminal."""

    title: str
    rows: Sequence[NamedTuple]
    compact: list[list[str]]  # the heading first
    note: str = ""  # a line that is shown below the table

    def csv(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([self.rows[0]._fields, *self.rows])
        return text.getvalue()


@dataclass(frozen=True)
class Curve:
    """One line of a panel.

    Args:
        run: the runs that it is drawn from; they have ``key()`` and ``size()``.
        metric: what is drawn of them.
        diminishing: whether the largest of all runs is drawn: the theorem holds almost surely.
        style: number of its colour and line style, the same for one method in every panel.
    """

    label: str
    run: Any
    metric: str
    diminishing: bool = False
    style: int = 0


@dataclass(frozen=True)
class Panel:
    """One set of axes; ``missing`` is the text that it shows without curves."""

    id: str
    title: str
    ylabel: str
    curves: tuple[Curve, ...]
    missing: str = ""
    data_set: str = ""


@dataclass(frozen=True)
class Figure:
    """A figure of the paper, or a companion of one.

    Args:
        companion: whether it goes beyond the paper, which then claims nothing about it.
        note: what the user should know, such as which data are missing.
    """

    name: str
    title: str
    panels: tuple[Panel, ...]
    companion: bool = False
    note: str = ""

    def runs(self) -> dict[str, Any]:
        """All runs by key; a run that several curves share is there once."""
        return {curve.run.key(): curve.run for panel in self.panels for curve in panel.curves}

    def headline(self) -> str:
        return f"{self.title}: {next(iter(self.runs().values())).size()}"

    def only(self, keys: Collection[str]) -> "Figure":
        """The same figure without the curves whose runs are not among ``keys``."""
        panels = (
            replace(panel, curves=tuple(c for c in panel.curves if c.run.key() in keys))
            for panel in self.panels
        )
        return replace(self, panels=tuple(panels))

    def by_data_set(self, results: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Results, given by key, by data set and then by method in the order of the legend."""
        curves: dict[str, dict[str, Curve]] = {}
        for panel in self.panels:
            for curve in panel.curves:
                curves.setdefault(panel.data_set, {})[curve.label] = curve
        return {
            data_set: {
                curve.label: results[curve.run.key()]
                for curve in sorted(found.values(), key=lambda curve: curve.style)
            }
            for data_set, found in curves.items()
        }


@dataclass(frozen=True)
class Reproducible:
    """How a figure is made, and what is shown and claimed about it.

    Args:
        figures: the paper's figure, or it and its companions, from what the user chose. Data are
            read, so that their faults are told first, and nothing is written.
        results: by the key of their run, from the runs, the folder where they are kept, a progress
            and what the user chose. Runs that are there are read, the others made.
        pictures: by the name of their file, from a figure and its results.
        claims: about the paper's figure.
        table: of a figure's numbers.
        quick: choices with ``--quick``.
    """

    figures: Callable[..., Figure | list[Figure]]
    results: Callable[..., dict[str, Any]]
    pictures: Callable[[Figure, Any], dict[str, Any]]
    claims: Callable[[Figure, Any], list[Claim]]
    quick: dict[str, Any]
    table: Callable[[Figure, Any], Table] | None = None

    def choices(self) -> list[str]:
        """The names of everything that the user can choose."""
        return keywords(self.figures) + keywords(self.results)


def reproducible(name: str) -> Reproducible:
    """How a figure is made. Figure 1 is imported without networks, Figure 3 without kernels."""
    validation.choice("figure", name, FIGURES)
    found: Reproducible = import_module(f"heavystep.lab.figures.{name}").REPRODUCIBLE
    return found


def keywords(function: Callable[..., Any]) -> list[str]:
    """The names of the arguments that must be named."""
    found = inspect.signature(function).parameters.values()
    return [each.name for each in found if each.kind is each.KEYWORD_ONLY]


def size(name: str, value: int, least: int) -> None:
    """Refuse a size of runs that is out of range."""
    validation.integer(name, value, least)
    if value > LARGEST:
        raise ValueError(f"{name} must be <= {LARGEST:g}, got {value}")


class Reproduction(NamedTuple):
    """The files that were written, and what they say."""

    claims: list[Claim]
    tables: list[Table]
    paths: list[Path]


def reproduce(
    figure: str,
    out: str | Path = "results",
    *,
    quick: bool = False,
    progress: Progress | None = None,
    **chosen: Any,
) -> Reproduction:
    """Reproduce a figure of the paper: what ``heavystep reproduce`` does.

    Runs that are in the folder are read and not made again.

    Args:
        figure: ``"figure1"``, ``"figure2"`` or ``"figure3"``.
        out: the output folder.
        quick: whether runs are fewer and shorter.
        progress: told what happens; None: notes go to the log "heavystep".
        chosen: options of the command by their names, such as ``seeds`` and ``iterations``.

    Returns:
        The claims with what was measured, the tables, and the paths of all files.

    Raises:
        ValueError: a choice is out of range, or data are missing or damaged, or runs failed.
    """
    how, out, progress = reproducible(figure), expanded(out), progress or Progress()
    for choice in set(chosen) - set(how.choices()):
        others = [name for name in FIGURES if choice in reproducible(name).choices()]
        option = "--" + choice.replace("_", "-")
        raise ValueError(f"{figure} has no {option}: it is for {' and '.join(others)} only")
    drawn = keywords(how.figures)
    found = how.figures(
        **(how.quick if quick else {}) | {n: v for n, v in chosen.items() if n in drawn}
    )
    figures = [found] if isinstance(found, Figure) else found
    runs = {key: run for each in figures for key, run in each.runs().items()}
    claim_folder(out)
    if figures[0].note:
        progress.note(figures[0].note)
    options = {name: value for name, value in chosen.items() if name not in drawn}
    results = how.results(runs, out / figure / RUNS, progress, **options)
    made = Reproduction([], [], [])

    def write(path: Path, text: str) -> None:
        write_atomically(path, text)
        made.paths.append(path)

    for each in (one.only(results) for one in figures):
        with styled():
            for picture, canvas in how.pictures(each, results).items():
                made.paths.extend(save(canvas, out / picture))
        if how.table is not None:
            made.tables.append(how.table(each, results))
            name = f"table{each.name.removeprefix(figure)}.csv"
            write(out / figure / name, made.tables[-1].csv())
        if not each.companion:
            made.claims.extend(how.claims(each, results))
            entries = [claim.as_json() for claim in made.claims]
            write(out / figure / CLAIMS, json.dumps(entries, indent=1, allow_nan=False) + "\n")
    return made


def read_claims(out: str | Path) -> list[Claim]:
    """The claims about every figure under ``out``, as the last reproduction found them.

    Raises:
        ValueError: there are none, or a file is damaged.
    """
    claims, out = [], expanded(out)
    for path in (out / name / CLAIMS for name in FIGURES):
        try:
            for entry in json.loads(path.read_text()) if path.exists() else ():
                measured = {name: float(value) for name, value in entry.pop("measured").items()}
                claim = Claim(**entry, measured=measured)
                claims.append(replace(claim, id=f"{path.parent.name}.{claim.id}"))
        except (AttributeError, KeyError, TypeError, ValueError):
            raise ValueError(
                f"{path} is not a list of claims: reproduce the figure again"
            ) from None
    if not claims:
        raise ValueError(f"no claims under {out}: run heavystep reproduce first")
    return claims
