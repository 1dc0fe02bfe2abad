"""``heavystep reproduce`` and ``heavystep claims``."""

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table

from heavystep.cli.completing import devices, engines, figures
from heavystep.cli.errors import told
from heavystep.cli.options import option, with_options
from heavystep.cli.output import show
from heavystep.cli.progress import progress_of
from heavystep.files import expanded

if TYPE_CHECKING:
    from heavystep.paper.claim import Claim
    from heavystep.paper.table import Table as Numbers

Out = Annotated[Path, typer.Option("--out", help="Where results are written.")]
FIGURE = inspect.Parameter(
    "figure",
    inspect.Parameter.KEYWORD_ONLY,
    annotation=Annotated[
        str, typer.Argument(help="One of figure1, figure2 and figure3.", autocompletion=figures)
    ],
)
CHOICES = (
    option("seeds", int | None, None, "Runs of each method."),
    option("seed", list[int] | None, None, "For figure3: one of the runs; again for more."),
    option("iterations", int | None, None, "For figure1, figure2: steps a run."),
    option("epochs", int | None, None, "For figure3: epochs a run."),
    option("datasets", str | None, None, "For figure3: cifar10, cifar100 or both, with a comma."),
    option("methods", list[str] | None, None, "For figure3: one of the methods; again for more."),
    option("max_step", float | None, None, "For figure2: one gamma_max, not 1 and 100."),
    option("engine", str | None, None, "Who does the runs: local (default) or ray.", engines),
    option(
        "address",
        str | None,
        None,
        "For ray: that of the cluster, 'auto' for the one that runs here; "
        "default: one is started on this machine.",
    ),
    option(
        "jobs", int | None, None, "For figure1, figure2: how many at a time; default: all cores."
    ),
    option(
        "device",
        str | None,
        None,
        "For figure3: cpu or cuda; default: the GPU if there is one.",
        devices,
    ),
    option("tensorboard", Path | None, None, "For figure3: where to log for TensorBoard."),
    option(
        "minutes", float | None, None, "For figure3: stop after so long, to go on another time."
    ),
    option("no_compile", bool, False, "For figure3: a GPU's network as it is, not compiled."),
    option("no_train", bool, False, "For figure3: draw and check the runs that are there."),
    option("force", bool, False, "Run again what is there."),
)
"""Options that only some of the figures have."""
COMMON = (
    option("quick", bool, False, "Fewer runs and steps."),
    option("out", Path, Path("results"), "Where results are written."),
)
UNFINISHED = 3
"""The exit status when time ran out."""


@told
def _reproduce(figure: str, quick: bool, out: Path, **values: Any) -> None:
    # Numba, matplotlib and pyarrow take seconds to import, and are an extra.
    from heavystep.paper.figure import UnfinishedError
    from heavystep.paper.reproduce import plan
    from heavystep.paper.reproduce import reproduce as run
    from heavystep.sweeps.output_folder import claim_folder

    # An option that can be repeated is an empty list without a value; 0 is a choice.
    idle = (type(None), list)
    chosen = {
        name: value
        for name, value in values.items()
        if value is not False and (value or not isinstance(value, idle))
    }
    out = expanded(out)
    wanted = plan(figure, out, quick=quick, chosen=chosen)
    claim_folder(out)
    try:
        with progress_of(wanted.unit) as progress:
            made = run(wanted, out, progress)
    except UnfinishedError as unfinished:
        typer.echo(str(unfinished), err=True)
        raise typer.Exit(UNFINISHED) from None
    for table in made.tables:
        _show_table(table)
    if made.claims:
        _show(made.claims)
    for path in made.paths:
        typer.echo(path)
    if made.claims:
        _leave(made.claims)


reproduce = with_options(
    _reproduce,
    [FIGURE, *CHOICES, *COMMON],
    "Run what is missing of a figure, draw it and check the paper's claims about it.\n\n"
    "Status 1: a claim does not hold; 2: something is wrong; 3: --minutes are over, and nothing "
    "was drawn.",
)


@told
def claims(out: Out = Path("results")) -> None:
    """Check every claim about the figures that were reproduced, on the stored runs."""
    from heavystep.paper.reproduce import evaluate_claims

    found = evaluate_claims(expanded(out), lambda text: typer.echo(text, err=True))
    _show(found)
    _leave(found)


def _show_table(numbers: "Numbers") -> None:
    heading, *rows = numbers.compact
    table = Table(*heading, title=numbers.title)
    for row in rows:
        table.add_row(*row)
    show(table)
    if numbers.note:
        show(numbers.note)


def _show(found: "list[Claim]") -> None:
    table = Table("claim", "holds", "text", Column("measured", overflow="fold"))
    for claim in found:
        numbers = ", ".join(f"{name}: {value:.4g}" for name, value in claim.measured.items())
        table.add_row(claim.id, "yes" if claim.holds else "NO", claim.text, numbers)
    show(table)


def _leave(found: "list[Claim]") -> None:
    judged = [claim for claim in found if claim.judged]
    failed = [claim.id for claim in judged if not claim.holds]
    if len(judged) < len(found):
        typer.echo("at this size claims show how they are measured, not whether they hold")
    if judged:
        typer.echo(f"{len(judged) - len(failed)} of {len(judged)} claims hold")
    if failed:
        typer.echo(f"these do not: {', '.join(failed)}", err=True)
        raise typer.Exit(1)
