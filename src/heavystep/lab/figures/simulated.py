"""Figures whose runs are simulated: Figures 1 and 2."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from heavystep import validation
from heavystep.lab.figures.figure import Chosen, Claim, Figure, Reproducible
from heavystep.lab.simulation.run import check_compiler
from heavystep.lab.simulation.sweep import FORMAT
from heavystep.lab.store import Store
from heavystep.lab.sweeps import Engine, Progress, complete, kept
from heavystep.records import Trajectories

Results = dict[str, Trajectories]  # results by the key of their run


def _engine(chosen: Chosen) -> Engine:
    return Engine(chosen.get("engine", "local"), chosen.get("jobs"), chosen.get("address"))


@dataclass(frozen=True)
class SimulatedFigure(Reproducible):
    """A figure whose runs have one size; each is whole or not there."""

    max_steps: tuple[float, ...] = ()
    """Largest steps for which the figure is made, the paper's first; empty: there is no choice."""
    parts: str = ""  # the names of its panels, a letter each, if some of them can be chosen

    unit: ClassVar[str] = "steps"
    least: ClassVar[dict[str, int]] = {"seeds": 2, "iterations": 1000}

    def choices(self) -> tuple[str, ...]:
        more = [*["max_step"] * bool(self.max_steps), *["panels"] * bool(self.parts)]
        return (*self.least, "engine", "jobs", "address", "force", *more)

    def figures(self, *, quick: bool, chosen: Chosen, folder: Path) -> list[Figure]:
        sizes = self.sizes(quick=quick, chosen=chosen)
        _engine(chosen).check()  # so that a wrong choice is told now
        if self.max_steps:
            steps = [chosen["max_step"]] if "max_step" in chosen else self.max_steps
            return [self.make(**sizes, max_step=each) for each in steps]
        figure = self.make(**sizes)
        if "panels" in chosen:
            wanted = [name.strip() for name in chosen["panels"].split(",")]
            for name in wanted:
                validation.choice("panels", name, tuple(self.parts))
            panels = tuple(panel for panel in figure.panels if panel.id in wanted)
            figure = replace(figure, panels=panels)
        return [figure]

    def complete(
        self, runs: dict[str, Any], folder: Path, progress: Progress, chosen: Chosen
    ) -> Results:
        check_compiler()  # once, since all runs would say the same
        force, engine = bool(chosen.get("force")), _engine(chosen)
        found = complete(runs.values(), Store(folder), progress, engine=engine, force=force)
        return {key: run.trajectories(found[key]) for key, run in runs.items()}

    def evaluated(self, name: str, folder: Path, note: Callable[[str], None]) -> list[Claim]:
        """The claims; where there are runs of several sizes, those with the most steps count."""
        store = Store(folder)
        sizes = {
            (content["seeds"] * content["iterations"], content["seeds"], content["iterations"])
            for content in store.contents()
            if content.get("format") == FORMAT
        }
        for _, seeds, iterations in sorted(sizes, reverse=True):
            size = f"{name}: {seeds} runs of {iterations:,} steps"
            try:
                paper = self.make(seeds=seeds, iterations=iterations)
                runs = paper.runs()
            except ValueError as error:
                note(f"{size} cannot be evaluated: {error}")
                continue
            found = kept(runs, store, note)
            for line in store.outdated(run.content() for run in runs.values()):
                note(f"{line}; heavystep reproduce {name} runs them again")
            begun = {key for key in runs if store.path(key).exists()}
            if self.parts:  # panels that were not asked for have no runs at all
                panels = (p for p in paper.panels if {c.run.key() for c in p.curves} & begun)
                paper = replace(paper, panels=tuple(panels))
            if not found or set(paper.runs()) - set(found):
                note(f"{size}: only {len(found)} of {len(runs)} methods and problems are there")
                continue
            if len(found) < len(runs):
                size += f", panels {', '.join(panel.id for panel in paper.panels)}"
            note(f"{size}; {paper.note}" if paper.note else size)
            results = {key: runs[key].trajectories(columns) for key, columns in found.items()}
            return self.claims(paper, results)
        return []
