"""``heavystep reproduce`` and ``heavystep claims``."""

import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table

from heavystep.cli.common import DEVICES, ENGINES, list_of, option, show, with_options

if TYPE_CHECKING:
    from heavystep.lab.figures.figure import Claim

FIGURES = ("figure1", "figure2", "figure3")
FIGURE = typer.Argument(
    help="One of figure1, figure2 and figure3.", autocompletion=list_of(FIGURES)
)
CLUSTER = (
    "That of a started cluster ('auto': the Ray that runs here); default: one is started here."
)
OPTIONS = (
    ("seeds", int | None, None, "Runs of each method."),
    ("seed", list[int] | None, None, "For figure3: one of the runs; again for more."),
    ("iterations", int | None, None, "For figure1, figure2: steps a run."),
    ("panels", str | None, None, "For figure1: some of its panels, such as 'c,d'."),
    ("epochs", int | None, None, "For figure3: epochs a run."),
    ("datasets", str | None, None, "For figure3: cifar10, cifar100 or both, with a comma."),
    ("methods", list[str] | None, None, "For figure3: one of the methods; again for more."),
    ("max_step", float | None, None, "For figure2: one gamma_max, not 1 and 100."),
    ("engine", str | None, None,
     "For figure1, figure2: who does the runs: local (default), ray or dask.", ENGINES),
    ("address", str | None, None, CLUSTER),
    ("jobs", int | None, None, "For figure1, figure2: how many at a time; default: all cores."),
    ("device", str | None, None, "For figure3: cpu or cuda; default: the GPU if any.", DEVICES),
    ("no_train", bool, False, "For figure3: draw and check the runs that are there."),
    ("quick", bool, False, "Fewer runs and steps."),
    ("out", Path, Path("results"), "Where results are written."),
)  # fmt: skip
"""All options but the last two are only for some of the figures."""


def _reproduce(figure: str, quick: bool, out: Path, **values: Any) -> None:
    # Numba, matplotlib and pyarrow take seconds to import, and are an extra.
    from heavystep.lab.figures import figure as figures
    from heavystep.lab.sweeps import ShownProgress

    # An option that can be repeated is an empty list without a value; 0 is a choice.
    chosen = {n: v for n, v in values.items() if v is not None and v is not False and v != []}
    progress = ShownProgress()
    with progress.bar:
        made = figures.reproduce(figure, out, quick=quick, progress=progress, **chosen)
    for numbers in made.tables:
        heading, *rows = numbers.compact
        table = Table(*heading, title=numbers.title)
        for row in rows:
            table.add_row(*row)
        show(table, *filter(None, [numbers.note]))
    _tell(made.claims, made.paths)


reproduce = with_options(
    _reproduce,
    [
        inspect.Parameter(
            "figure", inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[str, FIGURE]
        ),
        *(option(*row) for row in OPTIONS),
    ],
    "Run what is missing of a figure, draw it, check its claims.\n\n"
    "It can be stopped at any time: the same command goes on there. Status 1: a claim does not "
    "hold; 2: something is wrong.",
)


def claims(
    out: Annotated[Path, typer.Option("--out", help="Where results are.")] = Path("results"),
) -> None:
    """Show the claims about figures, and whether they hold."""
    from heavystep.lab.figures.figure import read_claims

    _tell(read_claims(out))


def _tell(claims: "list[Claim]", paths: Iterable[Path] = ()) -> None:
    """Show claims, then the files that were written, then how many claims hold."""
    if claims:
        table = Table("claim", "of", "holds", "text", Column("measured", overflow="fold"))
        for claim in claims:
            numbers = ", ".join(f"{name}: {value:.4g}" for name, value in claim.measured.items())
            holds = "yes" if claim.holds else "NO"
            table.add_row(claim.id, claim.of, holds, claim.text, numbers)
        show(table)
    for path in paths:
        typer.echo(path)
    judged = [claim for claim in claims if claim.judged]
    if len(judged) < len(claims):
        typer.echo("at this size claims show how they are measured, not whether they hold")
    for of, whose in (("paper", "the paper's"), ("project", "this project's")):
        if whole := [claim.holds for claim in judged if claim.of == of]:
            typer.echo(f"{sum(whole)} of {len(whole)} of {whose} claims hold")
    if failed := [claim.id for claim in judged if not claim.holds]:
        typer.echo(f"these do not: {', '.join(failed)}", err=True)
        raise typer.Exit(1)
