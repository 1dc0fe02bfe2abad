"""A figure as data, what is claimed about it, its table, and what it takes to reproduce one."""

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from heavystep import validation
from heavystep.lab.files import write_atomically

LARGEST = 10**10
"""Sizes above this are refused as slips of the keyboard."""
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
    """Whose claim it is: :data:`PAPER` or :data:`PROJECT`."""
    judged: bool = True
    """Whether it has to hold; it need not where the runs are too small for it."""

    def as_json(self) -> dict[str, Any]:
        """The claim as an entry of ``claims.json``."""
        return {
            "id": self.id,
            "of": self.of,
            "text": self.text,
            "holds": self.holds,
            "measured": {
                name: float(f"{value:.6g}") if np.isfinite(value) else str(value)
                for name, value in self.measured.items()
            },
        }


@dataclass(frozen=True)
class Table:
    """The same numbers for files and for the terminal."""

    title: str
    csv: str
    markdown: str
    compact: list[list[str]]
    """The lines that fit on a terminal, the heading first."""
    note: str = ""
    """A line that is shown below the table."""

    def save(self, path: Path) -> list[Path]:
        """Write the table with the endings .csv and .md."""
        paths = []
        for ending, text in (("csv", self.csv), ("md", self.markdown)):
            paths.append(path.with_name(f"{path.name}.{ending}"))
            write_atomically(paths[-1], lambda part: part.write_text(text))  # noqa: B023
        return paths


def csv_text(rows: Sequence[NamedTuple]) -> str:
    """The rows as CSV, under the names of their fields."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(rows[0]._fields)
    writer.writerows(rows)
    return text.getvalue()


def markdown_text(rows: Sequence[NamedTuple], texts: int) -> str:
    """The rows as a Markdown table.

    Args:
        rows: at least one.
        texts: how many of the first fields are texts; the others are numbers.
    """
    titles = [name.replace("_", " ") for name in rows[0]._fields]
    lines = [titles, ["---"] * texts + ["---:"] * (len(titles) - texts)]
    lines += [[*row[:texts], *(f"{number:.4g}" for number in row[texts:])] for row in rows]
    return piped(lines)


def piped(lines: Iterable[Sequence[str]]) -> str:
    r"""Lines of a table in Markdown, the ruler below the heading among them.

    >>> piped([["a", "b"], ["---", "---:"], ["x", "1"]])
    '| a | b |\n| --- | ---: |\n| x | 1 |\n'
    """
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


@dataclass(frozen=True)
class Curve:
    """One line of a panel."""

    label: str
    run: Any
    """The runs that it is drawn from; they have ``key()`` and ``size()``."""
    metric: str
    """The metric that is drawn, one of those that the runs record."""
    diminishing: bool = False
    """Whether the largest of all runs is drawn, because the theorem holds almost surely."""
    style: int = 0
    """The number of its colour and line style, the same for one method in every panel."""


@dataclass(frozen=True)
class Panel:
    """One set of axes."""

    id: str
    title: str
    ylabel: str
    curves: tuple[Curve, ...]
    missing: str = ""
    """The text that a panel without curves shows."""
    data_set: str = ""
    """The name of the data set that it shows; empty if the figure has none."""


@dataclass(frozen=True)
class Figure:
    """A figure of the paper, or a companion of one."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    companion: bool = False
    """Whether it goes beyond the paper, which then claims nothing about it."""
    note: str = ""
    """What the user should know, such as which data are missing; usually empty."""
    reduced: bool = False
    """Whether it is so small that the paper's claims are measured but need not hold."""

    def runs(self) -> dict[str, Any]:
        """All runs by key; a run that several curves share is there once."""
        return {curve.run.key(): curve.run for panel in self.panels for curve in panel.curves}

    def headline(self) -> str:
        """The title, with the number and length of the runs."""
        run = next(curve.run for panel in self.panels for curve in panel.curves)
        return f"{self.title}: {run.size()}"

    def only(self, keys: Collection[str]) -> "Figure":
        """The same figure without the curves whose runs are not among ``keys``."""
        panels = tuple(
            replace(panel, curves=tuple(c for c in panel.curves if c.run.key() in keys))
            for panel in self.panels
        )
        return replace(self, panels=panels)

    def by_data_set(self, results: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """The results by data set, then by method in the order of the legend.

        Args:
            results: by the keys of the runs.
        """
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
    """How a figure is made, at full size and quickly, and what is shown and claimed about it."""

    make: Callable[..., Figure]
    """The figure, from the sizes of its runs."""
    pictures: Callable[[Figure, Any], dict[str, Any]]
    """Pictures by the name of their file, from the figure and its results."""
    claims: Callable[[Figure, Any], list[Claim]]
    full: dict[str, Any]
    """The sizes in the paper."""
    quick: dict[str, Any]
    """The sizes with ``--quick``."""
    table: Callable[[Figure, Any], Table] | None = None

    unit: ClassVar[str]
    """What the length of a run is counted in: ``"steps"`` or ``"epochs"``."""
    least: ClassVar[dict[str, int]]
    """The sizes that can be chosen, with the least value of each."""

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
        """The sizes of the runs: those chosen, and the defaults of the others.

        Raises:
            ValueError: a size is out of range.
        """
        sizes = dict(self.quick if quick else self.full)
        for name, least in self.least.items():
            if name in chosen:
                validation.integer(name, chosen[name], least)
                if chosen[name] > LARGEST:
                    raise ValueError(f"{name} must be <= {LARGEST:g}, got {chosen[name]}")
                sizes[name] = chosen[name]
        return sizes
