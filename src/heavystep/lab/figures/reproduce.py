"""From the name of a figure to its files: runs, pictures, tables and claims."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from heavystep import validation
from heavystep.lab.figures.figure import Chosen, Claim, Figure, Reproducible, Table
from heavystep.lab.files import claim_folder, expanded, runs_folder, write_atomically
from heavystep.lab.plot import save, styled
from heavystep.lab.sweeps import Logged


# Each figure is imported when it is asked for: Figure 1 needs no networks, and Figure 3 no kernels.
@cache
def _figure1() -> Reproducible:
    from heavystep.lab.figures import figure1
    from heavystep.lab.figures.simulated import SimulatedFigure

    return SimulatedFigure(
        figure1.figure1,
        figure1.pictures,
        figure1.claims,
        full={"seeds": 20, "iterations": 1_000_000},
        quick={"seeds": 5, "iterations": 100_000},
        parts="abcdefgh",
    )


@cache
def _figure2() -> Reproducible:
    from heavystep.lab.figures import figure2, figure2_picture
    from heavystep.lab.figures.appendix_e import MAX_STEP
    from heavystep.lab.figures.simulated import SimulatedFigure

    return SimulatedFigure(
        figure2.figure2,
        figure2_picture.pictures,
        figure2.claims,
        full={"seeds": 5, "iterations": 20_000},
        quick={"seeds": 3, "iterations": 2_000},
        table=figure2.table,
        max_steps=(MAX_STEP, figure2.COMPANION_MAX_STEP),
    )


@cache
def _figure3() -> Reproducible:
    from heavystep.lab.figures import figure3, figure3_picture
    from heavystep.lab.figures.trained import TrainedFigure

    return TrainedFigure(
        figure3.figure3,
        figure3_picture.pictures,
        figure3.claims,
        full={"seeds": 3, "epochs": 200},
        quick={"seeds": 2, "epochs": 3, "scale": figure3.QUICK},
        table=figure3.table,
    )


FIGURES: dict[str, Callable[[], Reproducible]] = {
    "figure1": _figure1,
    "figure2": _figure2,
    "figure3": _figure3,
}
"""How each figure is reproduced, by its name."""


@dataclass(frozen=True)
class Plan:
    """A figure with its companions, and the runs that they need."""

    name: str
    figures: list[Figure]
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


def make(wanted: Plan, out: Path, progress: Any) -> Reproduction:
    """Make the runs of a figure that are missing, draw it and evaluate the claims about it.

    Args:
        wanted: the figure.
        out: the output folder.
        progress: told how far the runs are.

    Raises:
        UnfinishedError: time ran out before all runs were complete; nothing is drawn.
    """
    claim_folder(out)
    name, how = wanted.name, FIGURES[wanted.name]()
    if wanted.figures[0].note:
        progress.note(wanted.figures[0].note)
    results = how.complete(wanted.runs, runs_folder(out, name), progress, wanted.chosen)
    paths: list[Path] = []
    claims: list[Claim] = []
    tables: list[Table] = []
    for figure in (each.only(results) for each in wanted.figures):
        with styled():
            for picture, canvas in how.pictures(figure, results).items():
                paths += save(canvas, out / picture)
        if how.table is not None:
            tables.append(how.table(figure, results))
            paths += tables[-1].save(out / name / f"table{figure.name.removeprefix(name)}")
        if not figure.companion:
            claims = how.claims(figure, results)
            text = json.dumps([claim.as_json() for claim in claims], indent=1, allow_nan=False)
            paths.append(out / name / "claims.json")
            write_atomically(paths[-1], lambda part: part.write_text(text + "\n"))  # noqa: B023
    return Reproduction(claims, tables, paths)


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

    Args:
        out: the output folder.
        note: told which runs are used, and why others are not.

    Raises:
        ValueError: there are no runs that suffice for a figure.
    """
    claims = [
        replace(claim, id=f"{name}.{claim.id}")
        for name, figure in FIGURES.items()
        if any(runs_folder(out, name).glob("*"))
        for claim in figure().evaluated(name, runs_folder(out, name), note)
    ]
    if not claims:
        raise ValueError(f"nothing to evaluate under {out}: run heavystep reproduce first")
    return claims
