"""Figures whose runs are simulated: Figures 1 and 2."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from heavystep.paper import figure
from heavystep.paper.claim import Claim
from heavystep.paper.figure import Chosen, Reproducible
from heavystep.sweeps.engines import Engine, engine_of
from heavystep.sweeps.runner import Progress, Results, complete, kept
from heavystep.sweeps.specification import RunSpec
from heavystep.sweeps.store import Store

Curve = figure.Curve[RunSpec]
Panel = figure.Panel[RunSpec]
Figure = figure.Figure[RunSpec]
"""A figure whose curves are simulated runs."""
ENGINE = {"engine": "name", "jobs": "jobs", "address": "address"}
"""Choices that say who does the runs, with the arguments of :func:`engine_of`."""


def _engine(chosen: Chosen) -> Engine:
    return engine_of(**{ENGINE[name]: value for name, value in chosen.items() if name in ENGINE})


@dataclass(frozen=True)
class SimulatedFigure(Reproducible):
    """A figure whose runs have one size; each is whole or not there."""

    max_steps: tuple[float, ...] = ()
    """Largest steps for which the figure is made, the paper's first; empty: there is no choice."""

    unit: ClassVar[str] = "steps"
    least: ClassVar[dict[str, int]] = {"seeds": 2, "iterations": 1000}

    def choices(self) -> tuple[str, ...]:
        """Sizes and engine, and the largest step if the figure has a choice of it."""
        more = ["max_step"] if self.max_steps else []
        return (*self.least, *ENGINE, "force", *more)

    def figures(self, *, quick: bool, chosen: Chosen, folder: Path) -> list[Figure]:
        """The paper's figure and its companions, or the one for the largest step chosen."""
        sizes = self.sizes(quick=quick, chosen=chosen)
        _engine(chosen)  # so that a wrong choice is told now
        if not self.max_steps:
            return [self.make(**sizes)]
        steps = [chosen["max_step"]] if "max_step" in chosen else self.max_steps
        return [self.make(**sizes, max_step=each) for each in steps]

    def complete(
        self, runs: dict[str, RunSpec], folder: Path, progress: Progress, chosen: Chosen
    ) -> Results:
        """The results of all runs."""
        force = bool(chosen.get("force"))
        return complete(runs, Store(folder), progress, engine=_engine(chosen), force=force)

    def evaluated(self, name: str, folder: Path, note: Callable[[str], None]) -> list[Claim]:
        """The claims; where there are runs of several sizes, those with the most steps count."""
        store = Store(folder)
        for line in store.outdated():
            note(f"{line}; heavystep reproduce {name} runs them again")
        for sizes in sorted(store.sizes(), key=lambda size: -size["seeds"] * size["iterations"]):
            found = self._evaluated(name, sizes, store, note)
            if found:
                return found
        return []

    def _evaluated(
        self, name: str, sizes: dict[str, int], store: Store, note: Callable[[str], None]
    ) -> list[Claim]:
        """The claims for one size; none, and a note, if runs or data are missing."""
        size = f"{name}: {sizes['seeds']} runs of {sizes['iterations']:,} steps"
        try:
            paper: Figure = self.make(**sizes)
            runs = paper.runs()
        except ValueError as error:
            note(f"{size} cannot be evaluated: {error}")
            return []
        results = kept(runs, store, note)
        if len(results) < len(runs):
            note(f"{size}: only {len(results)} of {len(runs)} methods and problems are there")
            for line in set(store.outdated(runs.values())) - set(store.outdated()):
                note(f"{line}; heavystep reproduce {name} runs them again")
            return []
        note(f"{size}; {paper.note}" if paper.note else size)
        return self.claims(paper, results)
