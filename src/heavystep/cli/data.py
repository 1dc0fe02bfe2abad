"""``heavystep data``: lists, fetches and checks data sets."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Column, Table

from heavystep.cli.completing import data_sets
from heavystep.cli.errors import told
from heavystep.cli.groups import group_of_commands
from heavystep.cli.output import show
from heavystep.data import registry
from heavystep.data.locate import data_folder

data = group_of_commands(
    "List, fetch and check the data sets: which are here, and whether they are whole."
)


@data.command("list")
@told
def list_() -> None:
    """List every data set, its size and where it is."""
    table = Table(
        "name",
        *(Column(title, justify="right") for title in ("examples", "features", "entries")),
        Column("where", overflow="fold"),
    )
    catalogue = registry.entries()
    here = registry.present(catalogue)
    for name, entry in catalogue.items():
        entries = "-" if entry.entries is None else f"{entry.entries:,}"
        where = str(here.get(name, "not here"))
        table.add_row(name, f"{entry.n:,}", f"{entry.dim:,}", entries, where)
    show(table, f"data folder: {data_folder()}")


@data.command()
@told
def fetch(
    names: Annotated[list[str], typer.Argument(help="Names, or: all.", autocompletion=data_sets)],
) -> None:
    """Download data sets; what is here and whole is left alone."""
    wanted = list(registry.entries()) if names == ["all"] else list(dict.fromkeys(names))
    here = registry.present(wanted)
    for name in wanted:
        if name not in here or not _whole(name, here[name]):
            typer.echo(f"{name}: fetched, {_downloaded(name)}")


def _whole(name: str, path: Path) -> bool:
    """Whether the file is whole; a damaged one is refused if it would hide the new one."""
    try:
        registry.verify(name, path)
    except ValueError as error:
        if path != registry.target(name):
            raise ValueError(f"{error}; remove it, then fetch again") from None
        typer.echo(f"{error}; fetching it again", err=True)
        return False
    typer.echo(f"{name}: already here, {path}")
    return True


def _downloaded(name: str) -> str:
    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    console = Console(stderr=True)
    quiet = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=quiet) as bar:
        task = bar.add_task("", total=None)
        path = registry.fetch(name, lambda got, total: bar.update(task, completed=got, total=total))
    return str(path)


@data.command()
@told
def verify(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Names; default: those that are here.", autocompletion=data_sets),
    ] = None,
) -> None:
    """Compare files with what was published; status 1 if one is damaged, 2 if one is missing."""
    wanted = list(dict.fromkeys(names or registry.entries()))
    here = registry.present(wanted)
    damaged = 0
    for name in wanted:
        path = here.get(name)
        if path is None:
            typer.echo(f"{name}: missing")
            continue
        try:
            registry.verify(name, path)
            typer.echo(f"{name}: ok, {path}")
        except ValueError as error:
            damaged += 1
            typer.echo(f"{name}: damaged, {error}")
    if damaged:
        raise typer.Exit(1)
    if not here or (names and len(here) < len(wanted)):
        raise ValueError(registry.missing_text(wanted))
