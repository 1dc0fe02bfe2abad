"""``heavystep reproduce`` and ``heavystep claims``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table

from heavystep import validation
from heavystep.cli.errors import told
from heavystep.cli.output import show
from heavystep.cli.progress import RunProgress

if TYPE_CHECKING:
    from heavystep.experiments.claim import Claim
    from heavystep.experiments.table import Table as Numbers

MOST_ITERATIONS = 10**10
Out = Annotated[Path, typer.Option("--out", help="where results are written")]


@told
def reproduce(
    figure: Annotated[str, typer.Argument(help="figure1 or figure2")],
    quick: Annotated[bool, typer.Option("--quick", help="fewer runs and steps")] = False,
    seeds: Annotated[int | None, typer.Option("--seeds", help="runs of each method")] = None,
    iterations: Annotated[int | None, typer.Option("--iterations", help="steps a run")] = None,
    max_step: Annotated[
        float | None, typer.Option("--max-step", help="figure2: one gamma_max, not 1 and 100")
    ] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", help="threads; default: all cores")] = None,
    force: Annotated[bool, typer.Option("--force", help="run again what is there")] = False,
    out: Out = Path("results"),
) -> None:
    """Run what is missing of a figure, draw it and check the paper's claims about it."""
    # Numba, matplotlib and pyarrow take seconds to import, and are an extra.
    from heavystep.experiments.figures import FIGURES
    from heavystep.experiments.reproduce import claim_folder, plan
    from heavystep.experiments.reproduce import reproduce as run

    validation.choice("figure", figure, FIGURES)
    sizes = dict(FIGURES[figure].quick if quick else FIGURES[figure].full)
    for name, value, least in (("seeds", seeds, 2), ("iterations", iterations, 1000)):
        if value is not None:
            validation.integer(name, value, least)
            if value > MOST_ITERATIONS:
                raise ValueError(f"{name} must be <= {MOST_ITERATIONS:g}, got {value}")
            sizes[name] = value
    if jobs is not None:
        validation.integer("jobs", jobs, 1)
    wanted = plan(figure, sizes, max_step)
    out = out.expanduser()
    claim_folder(out)
    with RunProgress() as progress:
        made = run(wanted, out, progress, jobs=jobs, force=force)
    for table in made.tables:
        _show_table(table)
    if made.claims:
        _show(made.claims)
    for path in made.paths:
        typer.echo(path)
    if made.claims:
        _leave(made.claims)


@told
def claims(out: Out = Path("results")) -> None:
    """Every claim about the figures that were reproduced, evaluated on the stored runs."""
    from heavystep.experiments.reproduce import evaluate_claims

    found = evaluate_claims(out.expanduser(), lambda text: typer.echo(text, err=True))
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
    failed = [claim.id for claim in found if not claim.holds]
    typer.echo(f"{len(found) - len(failed)} of {len(found)} claims hold")
    if failed:
        typer.echo(f"these do not: {', '.join(failed)}", err=True)
        raise typer.Exit(1)
