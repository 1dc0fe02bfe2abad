"""``heavystep store``: lists training runs, and brings runs of several machines together."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table

from heavystep.cli.errors import told
from heavystep.cli.groups import group_of_commands
from heavystep.cli.output import show
from heavystep.files import expanded

store = group_of_commands("List the runs on disk, and bring those of several machines together.")
Out = Annotated[Path, typer.Option("--out", help="An output folder of heavystep reproduce.")]


@store.command("list")
@told
def list_(out: Out = Path("results")) -> None:
    """List every training run with its epochs and the devices they were made on."""
    from heavystep.sweeps.output_folder import runs_folder
    from heavystep.training.results import survey
    from heavystep.training.store import TrainingStore

    runs = TrainingStore(runs_folder(expanded(out), "figure3"))
    columns = ("data set", "method", "seed", "network", "images", "epochs")
    table = Table(*columns, "to go on with", Column("made on", overflow="fold"))
    found = sorted(
        survey(runs, lambda text: typer.echo(text, err=True)),
        key=lambda each: (each[0].scale.train_images, each[0].describe()),
    )
    for run, stored in found:
        made = "; ".join(
            dict.fromkeys(f"{each.device}, {each.precision}" for each in stored.stretches)
        )
        checkpoint = "checkpoint" if runs.checkpoint(run).exists() else "-"
        size = (run.scale.network, f"{run.scale.train_images:,}", str(stored.epochs))
        table.add_row(run.data_set, run.method.name, str(run.seed), *size, checkpoint, made)
    show(table if found else f"no training runs under {out}")


@store.command()
@told
def merge(
    sources: Annotated[list[Path], typer.Argument(help="Output folders, of other machines.")],
    out: Out = Path("results"),
) -> None:
    """Bring runs of other output folders to this one; status 1 if one of them is damaged.

    Of a training run that is in several folders the longest stays, with its checkpoint.
    """
    from heavystep.sweeps.merge import merge as bring

    merged = bring(
        [expanded(source) for source in sources],
        expanded(out),
        lambda text: typer.echo(text, err=True),
    )
    for source, count in merged.items():
        damaged = f", {count.damaged} damaged" if count.damaged else ""
        typer.echo(f"{source}: {count.copied} copied, {count.left_alone} left alone{damaged}")
    if any(count.damaged for count in merged.values()):
        raise typer.Exit(1)
