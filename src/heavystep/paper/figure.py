"""A figure as data: curves, panels and what they are drawn from; nothing here computes."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar


class Run(Protocol):
    """What a curve is drawn from."""

    def key(self) -> str:
        """The name under which its results are handed on."""

    def size(self) -> str:
        """How many runs of which length."""


AnyRun = TypeVar("AnyRun", bound=Run)
Result = TypeVar("Result")


@dataclass(frozen=True)
class Curve(Generic[AnyRun]):
    """One line of a panel."""

    label: str
    run: AnyRun
    metric: str
    """One of those that its runs record."""
    diminishing: bool = False
    """Drawn as the largest of all runs, because its theorem holds almost surely."""
    style: int = 0
    """Colour and line style, the same for one method in every panel."""


@dataclass(frozen=True)
class Panel(Generic[AnyRun]):
    """One set of axes."""

    id: str
    title: str
    ylabel: str
    curves: tuple[Curve[AnyRun], ...]
    missing: str = ""
    """What an empty panel says in place of curves."""


@dataclass(frozen=True)
class Figure(Generic[AnyRun]):
    """A figure of the paper, or a companion of one."""

    name: str
    title: str
    panels: tuple[Panel[AnyRun], ...]
    companion: bool = False
    """Beyond the paper, which claims nothing of it."""
    note: str = ""
    """What its user should know: data that are not here."""
    reduced: bool = False
    """So small that the paper's claims are measured but need not hold."""

    def runs(self) -> dict[str, AnyRun]:
        """All runs by key, each once."""
        return {curve.run.key(): curve.run for panel in self.panels for curve in panel.curves}

    def headline(self) -> str:
        """The title with the size of the runs."""
        run = next(curve.run for panel in self.panels for curve in panel.curves)
        return f"{self.title}: {run.size()}"

    def only(self, keys: Collection[str]) -> "Figure[AnyRun]":
        """The same panels with those curves whose runs are among ``keys``."""
        panels = tuple(
            replace(panel, curves=tuple(c for c in panel.curves if c.run.key() in keys))
            for panel in self.panels
        )
        return replace(self, panels=panels)


def by_data_set(
    figure: Figure[AnyRun], results: dict[str, Result], data_set_of: Callable[[AnyRun], str]
) -> dict[str, dict[str, Result]]:
    """The results on each data set, by method in the order of the legend.

    Args:
        figure: with one curve for each data set and method in one panel or more.
        results: by the keys of its runs.
        data_set_of: the name of a run's data set.
    """
    curves: dict[str, dict[str, Curve[AnyRun]]] = {}
    for panel in figure.panels:
        for curve in panel.curves:
            curves.setdefault(data_set_of(curve.run), {})[curve.label] = curve
    return {
        data_set: {
            curve.label: results[curve.run.key()]
            for curve in sorted(found.values(), key=lambda curve: curve.style)
        }
        for data_set, found in curves.items()
    }
