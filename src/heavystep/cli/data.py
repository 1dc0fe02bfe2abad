"""``heavystep data``: which data sets are here, fetching them, checking them."""

from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Column, Table

from heavystep.cli.errors import told
from heavystep.cli.output import show
from heavystep.data.catalogue import CATALOGUE, DataSet, data_set
from heavystep.data.download import fetch as download
from heavystep.data.locate import data_folder, libsvm_folder, missing_text, present
from heavystep.data.verify import verify as check

data = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="The data sets.")


@data.callback()
def root() -> None:
    """The data sets of the paper: which are here, where they come from, whether they are whole."""


@data.command("list")
@told
def list_() -> None:
    """Every data set, its size and where it is."""
    table = Table(
        "name",
        *(Column(title, justify="right") for title in ("rows", "columns", "entries")),
        Column("where", overflow="fold"),
    )
    here = present(CATALOGUE)
    for name, entry in CATALOGUE.items():
        entries = "-" if entry.entries is None else f"{entry.entries:,}"
        where = str(here.get(name, "not here"))
        table.add_row(name, f"{entry.n:,}", f"{entry.dim:,}", entries, where)
    show(table, f"data folder: {data_folder()}")


@data.command()
@told
def fetch(names: Annotated[list[str], typer.Argument(help="data sets, or: all")]) -> None:
    """Download data sets; what is here and whole is left alone."""
    for wanted in _entries(list(CATALOGUE) if names == ["all"] else names):
        if not _whole(wanted):
            typer.echo(f"{wanted.name}: fetched, {_downloaded(wanted)}")


def _whole(wanted: DataSet) -> bool:
    """Whether it is here; a damaged file is named, and one that would hide a new one is refused."""
    path = present([wanted.name]).get(wanted.name)
    if path is None:
        return False
    try:
        check(wanted, path)
    except ValueError as error:
        if path != libsvm_folder() / wanted.published:
            raise ValueError(f"{error}; remove it, then fetch again") from None
        typer.echo(f"{error}; fetching it again", err=True)
        return False
    typer.echo(f"{wanted.name}: already here, {path}")
    return True


def _downloaded(wanted: DataSet) -> str:
    columns = (TextColumn(wanted.name), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    console = Console(stderr=True)
    quiet = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=quiet) as bar:
        task = bar.add_task("", total=None)
        path = download(wanted, lambda got, total: bar.update(task, completed=got, total=total))
    return str(path)


@data.command()
@told
def verify(
    names: Annotated[list[str] | None, typer.Argument(help="default: those that are here")] = None,
) -> None:
    """Compare files with what was published; status 1 if one is damaged, 2 if one is missing."""
    wanted = _entries(names or list(CATALOGUE))
    here = present(entry.name for entry in wanted)
    damaged = 0
    for entry in wanted:
        path = here.get(entry.name)
        if path is None:
            typer.echo(f"{entry.name}: missing")
            continue
        try:
            check(entry, path)
            typer.echo(f"{entry.name}: ok, {path}")
        except ValueError as error:
            damaged += 1
            typer.echo(f"{entry.name}: damaged, {error}")
    if damaged:
        raise typer.Exit(1)
    if not here or (names and len(here) < len(wanted)):
        raise ValueError(missing_text(entry.name for entry in wanted))


def _entries(names: list[str]) -> list[DataSet]:
    return [data_set(name) for name in dict.fromkeys(names)]
