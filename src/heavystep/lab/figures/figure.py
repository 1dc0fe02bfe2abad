"""A figure of the paper: what it shows and claims, and the way from its name to its files."""

import inspect
import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from heavystep import validation
from heavystep.lab.plot import save, styled
from heavystep.lab.store import RUNS, claim_folder, csv_text, expanded, write_atomically
from heavystep.lab.sweeps import Progress

FIGURES = ("figure1", "figure2", "figure3")
LARGEST = 10**10  # sizes above this are refused as slips of the keyboard
PAPER, PROJECT = "paper", "project"
"""Authors of a claim: the paper in its words, or this project, which checks more."""
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


class Statement(NamedTuple):
    """The claim about a panel or a data set, as data: a row of a figure's table of claims.

    Args:
        text: may have places for words, such as ``{title}``.
        measure: the numbers that decide, from the results.
        holds: decides by these numbers alone; NaN holds nothing.
    """

    name: str
    text: str
    measure: Callable[..., dict[str, float]]
    holds: Callable[[dict[str, float]], Any]
    of: str = PAPER

    def claim(self, place: str, results: Any, **words: str) -> Claim:
        """The claim about a panel or data set, by its results."""
        measured, text = self.measure(results), self.text.format(**words)
        return Claim(f"{place}.{self.name}", text, bool(self.holds(measured)), measured, self.of)


def at_most(limit: float) -> Callable[[dict[str, float]], bool]:
    """A condition: no number is above the limit."""
    return lambda measured: all(value <= limit for value in measured.values())


class Table(NamedTuple):
    """A figure's numbers: all of them for the file, and the lines that fit on a terminal."""

    title: str
    rows: list[dict[str, Any]]
    compact: list[list[str]]  # the heading first
    note: str = ""  # a line that is shown below the table

    def csv(self) -> str:
        return csv_text(tuple(self.rows[0]), self.rows)


class Curve(NamedTuple):
    """One line of a panel: a metric of runs, which are hashable."""

    label: str
    run: Any
    metric: str


class Panel(NamedTuple):
    """One set of axes."""

    name: str  # its letter, or the data set
    title: str
    ylabel: str
    curves: tuple[Curve, ...]


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

    def runs(self) -> list[Any]:
        """All runs; one that several curves share is there once."""
        return list(dict.fromkeys(c.run for panel in self.panels for c in panel.curves))

    def headline(self) -> str:
        """The title of a picture of simulated runs."""
        run = self.runs()[0]
        return f"{self.title}: {run.seeds} runs of {run.iterations:,} steps"

    def only(self, runs: Collection[Any]) -> "Figure":
        """The same figure without the curves of other runs."""
        panels = (
            panel._replace(curves=tuple(c for c in panel.curves if c.run in runs))
            for panel in self.panels
        )
        return replace(self, panels=tuple(panels))


def figure_module(name: str) -> Any:
    """The module of a figure: Figure 1 is imported without networks, Figure 3 without kernels."""
    validation.choice("figure", name, FIGURES)
    return import_module(f"heavystep.lab.figures.{name}")


def keywords(function: Callable[..., Any]) -> list[str]:
    """The names of the arguments that must be named: what the user can choose."""
    found = inspect.signature(function).parameters.values()
    return [each.name for each in found if each.kind is each.KEYWORD_ONLY]


def check_size(name: str, value: int, least: int) -> None:
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
    how, out, progress = figure_module(figure), expanded(out), progress or Progress()
    drawn, done = keywords(how.figures), keywords(how.results)
    for choice in set(chosen) - {*drawn, *done}:
        modules = {name: figure_module(name) for name in FIGURES}
        others = [name for name, other in modules.items()
                  if choice in keywords(other.figures) + keywords(other.results)]  # fmt: skip
        option = "--" + choice.replace("_", "-")
        raise ValueError(f"{figure} has no {option}: it is for {' and '.join(others)} only")
    wanted = (how.QUICK if quick else {}) | {n: v for n, v in chosen.items() if n in drawn}
    figures: list[Figure] = how.figures(**wanted)
    runs = list(dict.fromkeys(run for each in figures for run in each.runs()))
    claim_folder(out)
    if figures[0].note:
        progress.note(figures[0].note)
    options = {name: value for name, value in chosen.items() if name in done}
    results = how.results(runs, out / figure / RUNS, progress, **options)
    made = Reproduction([], [], [])

    def write(name: str, text: str) -> None:
        made.paths.append(out / figure / name)
        write_atomically(made.paths[-1], text)

    for each in (one.only(results) for one in figures):
        with styled():
            for picture, canvas in how.pictures(each, results).items():
                made.paths.extend(save(canvas, out / picture))
        if hasattr(how, "table"):
            made.tables.append(how.table(each, results))
            write(f"table{each.name.removeprefix(figure)}.csv", made.tables[-1].csv())
        if not each.companion:
            made.claims.extend(how.claims(each, results))
            entries = [claim.as_json() for claim in made.claims]
            write(CLAIMS, json.dumps(entries, indent=1, allow_nan=False) + "\n")
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
