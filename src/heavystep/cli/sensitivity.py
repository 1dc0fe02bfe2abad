"""``heavystep bench sensitivity``: what nothing set gives, and what a grid would."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from heavystep.cli.completing import (
    CPU_TASKS,
    GPU_TASKS,
    RIVALS,
    contenders,
    devices,
    engines,
    task_names,
)
from heavystep.cli.errors import told
from heavystep.cli.listing import listed
from heavystep.cli.output import show
from heavystep.cli.progress import RunProgress
from heavystep.files import expanded

if TYPE_CHECKING:
    from heavystep.bench.sensitivity.verdict import Verdict

METHODS = (
    f"Names with commas between them: methods of 'heavystep methods', {', '.join(RIVALS)}; also "
    "with options (SHBArmijo:c=0.5, SGD:weight_decay=0.0005), with a schedule (AdamW+cosine), or "
    "told the number of steps (SHBPolyak+horizon). [default: SHBPolyak, SHBAdam, SHBArmijo, these "
    "three +horizon, the other six, SGD+cosine, AdamW+cosine]"
)
TASKS = (
    f"Names with commas between them: {', '.join(CPU_TASKS)}; on a GPU {', '.join(GPU_TASKS)}. "
    "[default: all of the device]"
)
FAILED = 1
"""The exit status when runs failed, and their contenders are missing."""


@told
def sensitivity(
    tasks: Annotated[
        list[str] | None, typer.Option("--tasks", help=TASKS, autocompletion=task_names)
    ] = None,
    methods: Annotated[
        list[str] | None, typer.Option("--methods", help=METHODS, autocompletion=contenders)
    ] = None,
    seeds: Annotated[int | None, typer.Option("--seeds", help="Runs of each. [default: 3]")] = None,
    per_decade: Annotated[
        int | None, typer.Option("--per-decade", help="Constants in a decade. [default: 1]")
    ] = None,
    average: Annotated[
        bool, typer.Option("--average", help="Measure our averaged iterates too.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few steps, one seed, three constants: does it run?")
    ] = False,
    jobs: Annotated[
        int | None, typer.Option("--jobs", help="How many at a time; default: all cores.")
    ] = None,
    engine: Annotated[
        str,
        typer.Option("--engine", help="Who does the runs: local or ray.", autocompletion=engines),
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option("--address", help="For ray: that of the cluster; default: one is started."),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            help="The device, cpu or cuda; default: that of the task.",
            autocompletion=devices,
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Where files and runs are kept.")] = Path(
        "results"
    ),
) -> None:
    """Measure the final loss against the main constant: ours beside SGD, AdamW and others.

    It writes a picture and tables for each task, and a page with verdicts, to OUT/sensitivity. Runs
    that are there are not made again. Status 1: runs failed; 2: something is wrong.
    """
    from heavystep.bench.sensitivity.plan import Wanted, plans
    from heavystep.bench.sensitivity.run import measure
    from heavystep.sweeps.engines import engine_of

    names = listed("--tasks", tasks), listed("--methods", methods)
    wanted = Wanted(*names, seeds, per_decade, device, average, quick)
    found, lines = plans(wanted)
    gpus = float(any(plan.device == "cuda" for plan in found))
    doer = engine_of(engine, jobs=jobs, address=address, gpus=gpus)
    with RunProgress() as progress:
        for line in lines:
            progress.note(line)
        endings = ("png",) if quick else ("png", "pdf")
        made = measure(found, expanded(out), doer, progress, endings)
    if made.verdicts:
        show(_table(made.verdicts))
    for path in made.paths:
        typer.echo(path)
    if made.failed:
        raise typer.Exit(FAILED)


def _table(verdicts: "list[Verdict]") -> Table:
    table = Table("task", "method", "with nothing set", "best rival", "behind", "verdict")
    for each in verdicts:
        metric = f"{each.metric_name} {each.metric:.4g}"
        behind = f"{each.metric_behind:.3g} {each.unit}"
        table.add_row(each.task, each.method, metric, each.rival_metric, behind, each.words)
    return table
