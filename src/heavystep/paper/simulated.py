"""Figures whose runs are simulated."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from heavystep.paper import figure
from heavystep.paper.claim import Claim
from heavystep.paper.reproducible import Chosen, Reproducible
from heavystep.sweeps import chosen_engine
from heavystep.sweeps.chosen_engine import engine_of
from heavystep.sweeps.runner import Progress, Results, complete, kept
from heavystep.sweeps.specification import RunSpec
from heavystep.sweeps.store import Store

Curve = figure.Curve[RunSpec]
Panel = figure.Panel[RunSpec]
Figure = figure.Figure[RunSpec]
"""Of simulated runs."""


@dataclass(frozen=True)
class SimulatedFigure(Reproducible):
    """Runs of one size, each whole or not there."""

    max_steps: tuple[float, ...] = ()
    """Largest steps for which it is made, the paper's first; none where there is no choice."""

    unit: ClassVar[str] = "steps"
    least: ClassVar[dict[str, int]] = {"seeds": 2, "iterations": 1000}

    def choices(self) -> tuple[str, ...]:
        """Sizes and engine, and the largest step where there is a choice."""
        more = ["max_step"] if self.max_steps else []
        return (*self.least, *chosen_engine.CHOICES, "force", *more)

    def figures(self, *, quick: bool, chosen: Chosen, folder: Path) -> list[Figure]:
        """The paper's figure and its companions, or the one for a given largest step."""
        sizes = self.sizes(quick=quick, chosen=chosen)
        engine_of(chosen)
        if not self.max_steps:
            return [self.make(**sizes)]
        steps = [chosen["max_step"]] if "max_step" in chosen else self.max_steps
        return [self.make(**sizes, max_step=each) for each in steps]

    def complete(
        self, runs: dict[str, RunSpec], folder: Path, progress: Progress, chosen: Chosen
    ) -> Results:
        """All of these runs."""
        engine, force = engine_of(chosen), bool(chosen.get("force"))
        return complete(runs, Store(folder), progress, engine=engine, force=force)

    def evaluated(self, name: str, folder: Path, note: Callable[[str], None]) -> list[Claim]:
        """Where runs of several sizes are there, those with the most steps count."""
        store = Store(folder)
        for sizes in sorted(store.sizes(), key=lambda size: -size["seeds"] * size["iterations"]):
            found = self._evaluated(name, sizes, store, note)
            if found:
                return found
        return []

    def _evaluated(
        self, name: str, sizes: dict[str, int], store: Store, note: Callable[[str], None]
    ) -> list[Claim]:
        """The claims for one size; none, and a note, if runs or the data are missing."""
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
            return []
        note(f"{size}; {paper.note}" if paper.note else size)
        return self.claims(paper, results)
