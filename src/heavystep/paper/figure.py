"""A figure as data, and what it takes to reproduce one."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from heavystep import validation
from heavystep.paper.claim import Claim
from heavystep.paper.table import Table

LARGEST = 10**10
"""Sizes above this are refused as slips of the keyboard."""
Chosen = Mapping[str, Any]
"""What the user chose, by the names of :meth:`Reproducible.choices`."""


class Run(Protocol):
    """The runs that a curve is drawn from."""

    def key(self) -> str:
        """The name under which the results are passed on."""

    def size(self) -> str:
        """Say how many runs there are, and how long they are."""


AnyRun = TypeVar("AnyRun", bound=Run)
Result = TypeVar("Result")


@dataclass(frozen=True)
class Curve(Generic[AnyRun]):
    """One line of a panel."""

    label: str
    run: AnyRun
    metric: str
    """The metric that is drawn, one of those that the runs record."""
    diminishing: bool = False
    """Whether the largest of all runs is drawn, because the theorem holds almost surely."""
    style: int = 0
    """The number of its colour and line style, the same for one method in every panel."""


@dataclass(frozen=True)
class Panel(Generic[AnyRun]):
    """One set of axes."""

    id: str
    title: str
    ylabel: str
    curves: tuple[Curve[AnyRun], ...]
    missing: str = ""
    """The text that a panel without curves shows."""
    data_set: str = ""
    """The name of the data set that it shows; empty if the figure has none."""


@dataclass(frozen=True)
class Figure(Generic[AnyRun]):
    """A figure of the paper, or a companion of one."""

    name: str
    title: str
    panels: tuple[Panel[AnyRun], ...]
    companion: bool = False
    """Whether it goes beyond the paper, which then claims nothing about it."""
    note: str = ""
    """What the user should know, such as which data are missing; usually empty."""
    reduced: bool = False
    """Whether it is so small that the paper's claims are measured but need not hold."""

    def runs(self) -> dict[str, AnyRun]:
        """All runs by key; a run that several curves share is there once."""
        return {curve.run.key(): curve.run for panel in self.panels for curve in panel.curves}

    def headline(self) -> str:
        """The title, with the number and length of the runs."""
        run = next(curve.run for panel in self.panels for curve in panel.curves)
        return f"{self.title}: {run.size()}"

    def only(self, keys: Collection[str]) -> "Figure[AnyRun]":
        """The same figure without the curves whose runs are not among ``keys``."""
        panels = tuple(
            replace(panel, curves=tuple(c for c in panel.curves if c.run.key() in keys))
            for panel in self.panels
        )
        return replace(self, panels=panels)


def by_data_set(figure: Figure[AnyRun], results: dict[str, Result]) -> dict[str, dict[str, Result]]:
    """The results by data set, then by method in the order of the legend.

    Args:
        figure: each of its methods has a curve on each data set, in one panel or several.
        results: by the keys of the runs.
    """
    curves: dict[str, dict[str, Curve[AnyRun]]] = {}
    for panel in figure.panels:
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

    make: Callable[..., Figure[Any]]
    """The figure, from the sizes of its runs."""
    pictures: Callable[[Figure[Any], Any], dict[str, Any]]
    """Pictures by the name of their file, from the figure and its results."""
    claims: Callable[[Figure[Any], Any], list[Claim]]
    full: dict[str, Any]
    """The sizes in the paper."""
    quick: dict[str, Any]
    """The sizes with ``--quick``."""
    table: Callable[[Figure[Any], Any], Table] | None = None

    unit: ClassVar[str]
    """What the length of a run is counted in: ``"steps"`` or ``"epochs"``."""
    least: ClassVar[dict[str, int]]
    """The sizes that can be chosen, with the least value of each."""

    @abstractmethod
    def choices(self) -> tuple[str, ...]:
        """The names of everything that the user can choose."""

    @abstractmethod
    def figures(self, *, quick: bool, chosen: Chosen, folder: Path) -> list[Figure[Any]]:
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
