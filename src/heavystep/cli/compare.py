"""``heavystep compare``: methods side by side on a problem."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table

from heavystep.cli.completing import engines, method_list, problem_names
from heavystep.cli.errors import told
from heavystep.cli.listing import listed
from heavystep.cli.output import show
from heavystep.cli.progress import RunProgress
from heavystep.files import expanded

if TYPE_CHECKING:
    from heavystep.paper.table import Table as Numbers

PROBLEM = (
    "A problem of the paper ('least squares', 'noisy least squares', 'cosine', 'noisy cosine'), a "
    "data set of 'heavystep data list', the path of a LIBSVM file, or a network ('digits'); may be "
    "given again."
)
FAILED = 1
"""The exit status when runs failed, and their methods are missing in the picture."""


@told
def compare(
    problem: Annotated[
        list[str], typer.Option("--problem", help=PROBLEM, autocompletion=problem_names)
    ],
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--methods",
            help="Names with commas between them, also with options "
            "(SHBPolyak:scaling=practical). [default: all, and the paper's rules]",
            autocompletion=method_list,
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Where files and runs are kept.")] = Path(
        "results/compare"
    ),
    seeds: Annotated[int | None, typer.Option("--seeds", help="Runs of each method.")] = None,
    iterations: Annotated[int | None, typer.Option("--iterations", help="Steps a run.")] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", help="The same in epochs.")] = None,
    batch_size: Annotated[
        int | None, typer.Option("--batch-size", help="Terms, rows or examples a step.")
    ] = None,
    engine: Annotated[
        str,
        typer.Option("--engine", help="Who does the runs: local or ray.", autocompletion=engines),
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option("--address", help="For ray: that of the cluster; default: one is started."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", help="How many at a time; default: all cores.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer and shorter runs.")] = False,
) -> None:
    """Compare methods on a problem: losses, costs, and how much depends on their main constant.

    For each problem it writes a picture and tables. Runs that are in the folder are not made again.
    Status 1: runs failed, and their methods are left out; 2: something is wrong.
    """
    # Numba, matplotlib and pyarrow take seconds to import, and are an extra.
    from heavystep.compare.plan import plan
    from heavystep.compare.run import check_names
    from heavystep.compare.run import compare as run
    from heavystep.sweeps.engines import engine_of

    doer = engine_of(engine, jobs=jobs, address=address)
    names = listed("--methods", methods)
    size = {"seeds": seeds, "iterations": iterations, "epochs": epochs, "batch_size": batch_size}
    plans = [plan(each, names, quick=quick, **size) for each in dict.fromkeys(problem)]
    check_names(plans)
    with RunProgress() as progress:
        made = run(plans, expanded(out), doer, progress)
    for table in made.tables:
        _show(table)
    for path in made.paths:
        typer.echo(path)
    if made.plans != plans:
        raise typer.Exit(FAILED)


def _show(numbers: "Numbers") -> None:
    heading, *rows = numbers.compact
    right = (Column(name, justify="right", no_wrap=True) for name in heading[2:])
    table = Table(*heading[:2], *right, title=numbers.title)
    for row in rows:
        table.add_row(*row)
    show(table, numbers.note)
