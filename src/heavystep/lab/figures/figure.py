"""A figure of the paper: what it shows and claims, and the way from its name to its files."""

import csv
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from heavystep import validation
from heavystep.lab.files import claim_folder, expanded, runs_folder, write_atomically
from heavystep.lab.plot import save, styled
from heavystep.lab.sweeps import Logged

FIGURES = ("figure1", "figure2", "figure3")
LARGEST = 10**10  # sizes above this are refused as slips of the keyboard
PAPER, PROJECT = "paper", "project"
"""Who claims: the paper in its words, or this project, which checks more than the paper says."""
Chosen = Mapping[str, Any]
"""What the user chose, by the names of :meth:`Reproducible.choices`."""


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
        return {**fields, "measured": measured}


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
        reduced: whether it is so small that the paper's claims need not hold.
    """

    name: str
    title: str
    panels: tuple[Panel, ...]
    companion: bool = False
    note: str = ""
    reduced: bool = False

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


class UnfinishedError(Exception):
    """Time ran out before all runs of a figure were complete."""


@dataclass(frozen=True)
class Reproducible(ABC):
    """How a figure is made, at full size and quickly, and what is shown and claimed about it.

    Args:
        make: the figure, from the sizes of its runs.
        pictures: by the name of their file, from the figure and its results.
        full: the sizes in the paper.
        quick: the sizes with ``--quick``.
    """

    make: Callable[..., Figure]
    pictures: Callable[[Figure, Any], dict[str, Any]]
    claims: Callable[[Figure, Any], list[Claim]]
    full: dict[str, Any]
    quick: dict[str, Any]
    table: Callable[[Figure, Any], Table] | None = None

    unit: ClassVar[str]
    """What the length of a run is counted in: ``"steps"`` or ``"epochs"``."""
    least: ClassVar[dict[str, int]]  # the sizes that can be chosen, with the least value of each

    @abstractmethod
    def choices(self) -> tuple[str, ...]:
        """The names of everything that the user can choose."""

    @abstractmethod
    def figures(self, *, quick: bool, chosen: Chosen, folder: Path) -> list[Figure]:
        """The paper's figure and its companions. Data and runs are read, and nothing is written.

        Raises:
            ValueError: a choice is out of range, or data or runs are missing.
        """

    @abstractmethod
    def complete(
        self, runs: dict[str, Any], folder: Path, progress: Any, chosen: Chosen
    ) -> dict[str, Any]:
        """The results by key. Runs that are in ``folder`` are read, the others made and kept there.

        Raises:
            UnfinishedError: time ran out.
        """

    @abstractmethod
    def evaluated(self, name: str, folder: Path, note: Callable[[str], None]) -> list[Claim]:
        """The claims, evaluated on the runs in ``folder``; none if runs are missing."""

    def sizes(self, *, quick: bool, chosen: Chosen) -> dict[str, Any]:
        """The sizes of the runs: those chosen, and the defaults of the others."""
        sizes = dict(self.quick if quick else self.full)
        for name, least in self.least.items():
            if name in chosen:
                validation.integer(name, chosen[name], least)
                if chosen[name] > LARGEST:
                    raise ValueError(f"{name} must be <= {LARGEST:g}, got {chosen[name]}")
                sizes[name] = chosen[name]
        return sizes


def reproducible(name: str) -> Reproducible:
    """How a figure is made. Figure 1 is imported without networks, Figure 3 without kernels."""
    validation.choice("figure", name, FIGURES)
    found: Reproducible = import_module(f"heavystep.lab.figures.{name}").REPRODUCIBLE
    return found


class Plan(NamedTuple):
    """A figure with its companions, the runs that they need by key, and what the user chose."""

    name: str
    how: Reproducible
    figures: list[Figure]
    runs: dict[str, Any]
    chosen: Chosen


class Reproduction(NamedTuple):
    """The files that were written, and what they say."""

    claims: list[Claim]
    tables: list[Table]
    paths: list[Path]


def plan(name: str, out: Path, *, quick: bool, chosen: Chosen) -> Plan:
    """Find out what a figure needs. This reads its data, so that their faults are told first.

    Raises:
        ValueError: there is no such figure, data are missing or damaged, or a choice is out of
            range or not one of this figure.
    """
    how = reproducible(name)
    for choice in chosen:
        if choice not in how.choices():
            others = [each for each in FIGURES if choice in reproducible(each).choices()]
            option = "--" + choice.replace("_", "-")
            raise ValueError(f"{name} has no {option}: it is for {' and '.join(others)} only")
    figures = how.figures(quick=quick, chosen=chosen, folder=runs_folder(out, name))
    runs = {key: run for each in figures for key, run in each.runs().items()}
    return Plan(name, how, figures, runs, chosen)


def make(wanted: Plan, out: Path, progress: Any) -> Reproduction:
    """Make the runs that are missing, draw the figure and evaluate the claims about it.

    Raises:
        UnfinishedError: time ran out before all runs were complete; nothing is drawn.
    """
    claim_folder(out)
    name, how, figures, runs, chosen = wanted
    if figures[0].note:
        progress.note(figures[0].note)
    results = how.complete(runs, runs_folder(out, name), progress, chosen)
    made = Reproduction([], [], [])

    def write(path: Path, text: str) -> None:
        write_atomically(path, lambda part: part.write_text(text))
        made.paths.append(path)

    for figure in (each.only(results) for each in figures):
        with styled():
            for picture, canvas in how.pictures(figure, results).items():
                made.paths.extend(save(canvas, out / picture))
        if how.table is not None:
            made.tables.append(how.table(figure, results))
            place = out / name / f"table{figure.name.removeprefix(name)}.csv"
            write(place, made.tables[-1].csv())
        if not figure.companion:
            made.claims.extend(how.claims(figure, results))
            entries = [claim.as_json() for claim in made.claims]
            text = json.dumps(entries, indent=1, allow_nan=False) + "\n"
            write(out / name / "claims.json", text)
    return made


def reproduce(
    figure: str, out: str | Path = "results", *, quick: bool = False, **chosen: Any
) -> Reproduction:
    """Reproduce a figure of the paper: what ``heavystep reproduce`` does.

    Runs that are in the folder are read and not made again; progress goes to the log "heavystep".

    Args:
        figure: ``"figure1"``, ``"figure2"`` or ``"figure3"``.
        out: the output folder.
        quick: whether runs are fewer and shorter.
        chosen: options of the command by their names, such as ``seeds`` and ``iterations``.

    Returns:
        The claims with what was measured, the tables, and the paths of all files.

    Raises:
        ValueError: a choice is out of range, or data are missing, or runs failed.
    """
    out = expanded(Path(out))
    return make(plan(figure, out, quick=quick, chosen=chosen), out, Logged())


def evaluate_claims(out: Path, note: Callable[[str], None]) -> list[Claim]:
    """The claims of every figure under ``out``, evaluated anew on the runs that are there.

    ``note`` is told which runs are used, and why others are not.

    Raises:
        ValueError: there are no runs that suffice for a figure.
    """
    claims = [
        replace(claim, id=f"{name}.{claim.id}")
        for name in FIGURES
        if any(runs_folder(out, name).glob("*"))
        for claim in reproducible(name).evaluated(name, runs_folder(out, name), note)
    ]
    if not claims:
        raise ValueError(f"nothing to evaluate under {out}: run heavystep reproduce first")
    return claims
