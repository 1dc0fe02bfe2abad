"""From the name of a figure to its files: runs, pictures, tables and claims."""

import json
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from heavystep import validation
from heavystep.files import write_atomically
from heavystep.paper.claim import Claim
from heavystep.paper.drawing import second_process
from heavystep.paper.figure import Chosen, Figure, Reproducible
from heavystep.paper.plot import save, styled
from heavystep.paper.table import Table
from heavystep.sweeps.output_folder import runs_folder


# Each figure is imported when it is asked for: Figure 1 needs no networks, and Figure 3 no kernels.
def _figure1() -> Reproducible:
    from heavystep.paper.figure1 import claims, definition, plot
    from heavystep.paper.simulated import SimulatedFigure

    return SimulatedFigure(
        definition.figure1,
        plot.figure1_pictures,
        claims.figure1_claims,
        full={"seeds": 20, "iterations": 1_000_000},
        quick={"seeds": 5, "iterations": 100_000},
    )


def _figure2() -> Reproducible:
    from heavystep.paper.appendix_e import MAX_STEP
    from heavystep.paper.figure2 import claims, definition, plot, table
    from heavystep.paper.simulated import SimulatedFigure

    return SimulatedFigure(
        definition.figure2,
        plot.figure2_pictures,
        claims.figure2_claims,
        full={"seeds": 5, "iterations": 20_000},
        quick={"seeds": 3, "iterations": 2_000},
        table=table.figure2_table,
        max_steps=(MAX_STEP, definition.COMPANION_MAX_STEP),
    )


def _figure3() -> Reproducible:
    from heavystep.paper.figure3 import claims, definition, plot, table
    from heavystep.paper.trained import TrainedFigure

    return TrainedFigure(
        definition.figure3,
        plot.figure3_pictures,
        claims.figure3_claims,
        full={"seeds": 3, "epochs": 200},
        quick={"seeds": 2, "epochs": 3, "scale": definition.QUICK},
        table=table.figure3_table,
    )


FIGURES: dict[str, Callable[[], Reproducible]] = {
    "figure1": cache(_figure1),
    "figure2": cache(_figure2),
    "figure3": cache(_figure3),
}
"""How each figure is reproduced, by its name."""
MANY = 200_000
"""More steps than this take longer than the start of a process."""


@dataclass(frozen=True)
class Plan:
    """A figure with its companions, and the runs that they need."""

    name: str
    figures: list[Figure[Any]]
    runs: dict[str, Any]
    """By key."""
    chosen: Chosen
    unit: str
    """What the length of a run is counted in: ``"steps"`` or ``"epochs"``."""


@dataclass(frozen=True)
class Reproduction:
    """The files that were written, and what they say."""

    claims: list[Claim]
    tables: list[Table]
    paths: list[Path]


def plan(name: str, out: Path, *, quick: bool, chosen: Chosen) -> Plan:
    """Find out which runs a figure needs. This reads its data, so that their faults are told first.

    Args:
        name: one of :data:`FIGURES`.
        out: the output folder, in which nothing is written yet.
        quick: whether runs are fewer and shorter.
        chosen: what the user chose, by name.

    Raises:
        ValueError: there is no such figure, data are missing or damaged, or a choice is out of
            range or not one of this figure.
    """
    validation.choice("figure", name, FIGURES)
    figure = FIGURES[name]()
    for choice in chosen:
        if choice not in figure.choices():
            others = [other for other, make in FIGURES.items() if choice in make().choices()]
            option = "--" + choice.replace("_", "-")
            raise ValueError(f"{name} has no {option}: it is for {' and '.join(others)} only")
    figures = figure.figures(quick=quick, chosen=chosen, folder=runs_folder(out, name))
    runs = {key: run for each in figures for key, run in each.runs().items()}
    return Plan(name, figures, runs, chosen, figure.unit)


def reproduce(wanted: Plan, out: Path, progress: Any) -> Reproduction:
    """Make the runs of a figure that are missing, draw it and evaluate the claims about it.

    Args:
        wanted: the figure.
        out: the output folder.
        progress: told how far the runs are.

    Raises:
        UnfinishedError: time ran out before all runs were complete; nothing is drawn.
    """
    name, reproducible = wanted.name, FIGURES[wanted.name]()
    if wanted.figures[0].note:
        progress.note(wanted.figures[0].note)
    folder = runs_folder(out, name)
    with second_process(_prepare, name, wanted=_worth_a_process(wanted)) as helper:
        results = reproducible.complete(wanted.runs, folder, progress, wanted.chosen)
        figures = [each.only(results) for each in wanted.figures]
        paths = _pictures(helper, name, figures, results, out)
    claims: list[Claim] = []
    tables: list[Table] = []
    for figure in figures:
        if reproducible.table is not None:
            tables.append(reproducible.table(figure, results))
            paths += tables[-1].save(out / name / f"table{figure.name.removeprefix(name)}")
        if not figure.companion:
            claims = reproducible.claims(figure, results)
            text = json.dumps([claim.as_json() for claim in claims], indent=1, allow_nan=False)
            paths.append(out / name / "claims.json")
            write_atomically(paths[-1], lambda part: part.write_text(text + "\n"))  # noqa: B023
    return Reproduction(claims, tables, paths)


def _worth_a_process(wanted: Plan) -> bool:
    """Whether there are several figures to draw, and runs that take longer than its start."""
    if len(wanted.figures) == 1 or wanted.unit != "steps":
        return False
    steps: int = sum(run.seeds * run.iterations for run in wanted.runs.values())
    return steps > MANY


def _prepare(name: str) -> None:
    FIGURES[name]()


def _pictures(
    helper: Executor | None,
    name: str,
    figures: list[Figure[Any]],
    results: dict[str, Any],
    out: Path,
) -> list[Path]:
    """Draw all figures; a helper draws the companions while the first is drawn here."""
    paper, *companions = figures
    if helper is not None:
        with suppress(BrokenExecutor):  # somebody ended it: all can be drawn here
            others = [
                helper.submit(_drawn, name, each, {key: results[key] for key in each.runs()}, out)
                for each in companions
            ]
            paths = _drawn(name, paper, results, out)
            return paths + [path for other in others for path in other.result()]
    return [path for figure in figures for path in _drawn(name, figure, results, out)]


def _drawn(name: str, figure: Figure[Any], results: dict[str, Any], out: Path) -> list[Path]:
    with styled():
        return [
            path
            for picture, canvas in FIGURES[name]().pictures(figure, results).items()
            for path in save(canvas, out / picture)
        ]


def evaluate_claims(out: Path, note: Callable[[str], None]) -> list[Claim]:
    """The claims of every figure under ``out``, evaluated anew on the runs that are there.

    Args:
        out: the output folder.
        note: told which runs are used, and why others are not.

    Raises:
        ValueError: there are no runs that suffice for a figure.
    """
    claims = [
        replace(claim, id=f"{name}.{claim.id}")
        for name, figure in FIGURES.items()
        for claim in figure().evaluated(name, runs_folder(out, name), note)
    ]
    if not claims:
        raise ValueError(f"nothing to evaluate under {out}: run heavystep reproduce first")
    return claims
