"""``heavystep compare``: methods side by side, on networks and on simulated problems."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table

from heavystep.cli.completing import contenders, devices, engines, task_names
from heavystep.cli.errors import told
from heavystep.cli.listing import listed
from heavystep.cli.output import show
from heavystep.cli.progress import RunProgress
from heavystep.files import expanded

if TYPE_CHECKING:
    from heavystep.lab.compare.page import Comparison

TASKS = (
    "Names with commas between them (mlp, charlm, a9a, 'noisy cosine', ...), or the path of a "
    "LIBSVM file; a name that is unknown is answered with all names. [default: all]"
)
METHODS = (
    "Names with commas between them: methods of 'heavystep methods', SGD, AdamW, NadamW, Adadelta, "
    "momo-opt, momo-opt-Adam, Prodigy, ScheduleFree; also with options "
    "(SHBArmijo:c=0.5, SGD:weight_decay=0.0005), with a schedule (AdamW+cosine), or told the "
    "number of steps (HeavyStep+horizon)."
)
FAILED = 1
"""The exit status when runs failed, and their contenders are missing."""


@told
def compare(
    tasks: Annotated[
        list[str] | None, typer.Option("--tasks", help=TASKS, autocompletion=task_names)
    ] = None,
    methods: Annotated[
        list[str] | None, typer.Option("--methods", help=METHODS, autocompletion=contenders)
    ] = None,
    seeds: Annotated[int | None, typer.Option("--seeds", help="Runs of each. [default: 3 or 1, by task]")] = None,
    per_decade: Annotated[
        int | None,
        typer.Option("--per-decade", help="Constants in a decade; 0: none. [default: 1]"),
    ] = None,
    steps: Annotated[int | None, typer.Option("--steps", help="Steps of a run.")] = None,
    average: Annotated[
        bool, typer.Option("--average", help="Measure our averaged iterates too.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Five tasks, a fifth of the steps, one seed, no grid.")
    ] = False,
    jobs: Annotated[
        int | None, typer.Option("--jobs", help="How many at a time; default: all cores.")
    ] = None,
    engine: Annotated[
        str,
        typer.Option("--engine", help="Who does the runs: local, ray or dask.",
                     autocompletion=engines),
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option("--address", help="That of a started cluster; default: one is started."),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", help="cpu or cuda; default: that of the task.",
                     autocompletion=devices),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Where files and runs are kept.")] = Path(
        "results"
    ),
) -> None:  # fmt: skip
    """Compare methods: losses and metrics with nothing set, and over their main constant.

    It writes tables, pictures and a page to OUT/compare. Runs that are in OUT/compare/runs.csv are
    not made again. Status 1: runs failed, and their methods are left out; 2: something is wrong.
    """
    # Torch and matplotlib take seconds to import.
    from heavystep.lab.compare.page import compare as run
    from heavystep.lab.compare.table import plans
    from heavystep.lab.sweeps import Engine

    names = listed("--tasks", tasks), listed("--methods", methods)
    found, lines = plans(
        *names, seeds=seeds, per_decade=per_decade, steps=steps, device=device, average=average,
        quick=quick,
    )  # fmt: skip
    gpus = float(any(run.device == "cuda" for plan in found for run in plan.start))
    doer = Engine(engine, jobs, address, gpus)
    with RunProgress() as progress:
        for line in lines:
            progress.note(line)
        for name, why in {n: w for plan in found for n, w in plan.left_out.items()}.items():
            progress.note(f"{name} is left out: {why}")
        command = " ".join(["heavystep", *sys.argv[1:]])
        made = run(found, expanded(out), progress, engine=doer, command=command)
    show(*_tables(made))
    for path in made.paths:
        typer.echo(path)
    if made.failed:
        raise typer.Exit(FAILED)


def _tables(made: "Comparison") -> list[Table | str]:
    from heavystep.lab.compare.page import EXPLAINED, short

    names = ("regret", "worst", "on", "level", "behind", "level", "tuned")
    right = (Column(name, justify="right", no_wrap=True) for name in names)
    table = Table(Column("method", no_wrap=True), *right, title=f"{len(made.outcomes)} tasks")
    for row in made.rows:
        table.add_row(
            row.method, short(row.regret), short(row.worst), row.worst_on,
            f"{row.level}/{row.tasks}", short(row.behind), f"{row.metric_level}/{row.tasks}",
            short(row.tuned),
        )  # fmt: skip
    return [table, EXPLAINED]
