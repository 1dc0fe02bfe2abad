"""``heavystep bench sensitivity``: what nothing set gives, and what a grid would."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from heavystep.cli.errors import told
from heavystep.cli.output import show
from heavystep.cli.progress import RunProgress

if TYPE_CHECKING:
    from heavystep.bench.sensitivity.verdict import Verdict

METHODS = (
    "names with commas between them: methods of 'heavystep methods', SGD, AdamW, momo-opt, "
    "momo-opt-Adam, Prodigy, ScheduleFree; also with options (SHBArmijo:c=0.5, "
    "SGD:weight_decay=0.0005), with a schedule (AdamW+cosine), or told the number of steps "
    "(SHBPolyak+horizon) [default: SHBPolyak, SHBAdam, SHBArmijo, these three +horizon, the other "
    "six, SGD+cosine, AdamW+cosine]"
)
TASKS = (
    "names with commas between them: mlp, cnn, frozen, vae, regression, nll, units, targets-0.01, "
    "targets-100, inputs-100, summed, diabetes, a9a, cod-rna, ijcnn1, mushrooms, phishing, "
    "svmguide1, w8a, charlm; on a GPU gpt, cifar10 [default: all of the device]"
)
FAILED = 1
"""The exit status when runs failed, and their contenders are missing."""


@told
def sensitivity(
    tasks: Annotated[list[str] | None, typer.Option("--tasks", help=TASKS)] = None,
    methods: Annotated[list[str] | None, typer.Option("--methods", help=METHODS)] = None,
    seeds: Annotated[int | None, typer.Option("--seeds", help="runs of each [default: 3]")] = None,
    per_decade: Annotated[
        int | None, typer.Option("--per-decade", help="constants in a decade [default: 1]")
    ] = None,
    average: Annotated[
        bool, typer.Option("--average", help="measure our averaged iterates too")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="few steps, one seed, three constants: does it run?")
    ] = False,
    jobs: Annotated[
        int | None, typer.Option("--jobs", help="how many at a time; default: all cores")
    ] = None,
    engine: Annotated[str, typer.Option("--engine", help="local or ray: who does runs")] = "local",
    address: Annotated[
        str | None, typer.Option("--address", help="ray: of the cluster; default: one is started")
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", help="cpu or cuda; default: that of the task")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="where files and runs are kept")] = Path(
        "results"
    ),
) -> None:
    """Final loss against the main constant over six decades: ours beside SGD, AdamW and others.

    It writes a picture and tables for each task, and a page with verdicts, to OUT/sensitivity. Runs
    that are there are not made again. Status 1: runs failed; 2: something is wrong.
    """
    from heavystep.bench.sensitivity.plan import Wanted, plans
    from heavystep.bench.sensitivity.run import measure
    from heavystep.sweeps.engines import engine_of

    wanted = Wanted(_names(tasks), _names(methods), seeds, per_decade, device, average, quick)
    found, lines = plans(wanted)
    gpus = float(any(plan.device == "cuda" for plan in found))
    doer = engine_of(engine, jobs=jobs, address=address, gpus=gpus)
    with RunProgress() as progress:
        for line in lines:
            progress.note(line)
        endings = ("png",) if quick else ("png", "pdf")
        made = measure(found, out.expanduser(), doer, progress, endings)
    if made.verdicts:
        show(_table(made.verdicts))
    for path in made.paths:
        typer.echo(path)
    if made.failed:
        raise typer.Exit(FAILED)


def _names(texts: list[str] | None) -> tuple[str, ...]:
    return tuple(name.strip() for text in texts or () for name in text.split(",") if name.strip())


def _table(verdicts: "list[Verdict]") -> Table:
    table = Table("task", "method", "with nothing set", "best rival", "behind", "verdict")
    for each in verdicts:
        metric = f"{each.metric_name} {each.metric:.4g}"
        behind = f"{each.metric_behind:.3g} {each.unit}"
        table.add_row(each.task, each.method, metric, each.rival_metric, behind, each.words)
    return table
