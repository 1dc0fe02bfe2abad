"""The commands of ``heavystep``."""

from typing import Annotated

import typer

from heavystep import __version__
from heavystep.cli.bench import bench
from heavystep.cli.compare import compare
from heavystep.cli.data import data
from heavystep.cli.methods import methods
from heavystep.cli.reproduce import claims, reproduce
from heavystep.cli.store import store
from heavystep.cli.theory import theory

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Stochastic heavy ball whose step size chooses itself.",
)
app.add_typer(theory, name="theory")
app.add_typer(bench, name="bench")
app.add_typer(data, name="data")
app.add_typer(store, name="store")
app.command("reproduce")(reproduce)
app.command("claims")(claims)
app.command("methods")(methods)
app.command("compare")(compare)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Stochastic heavy ball whose step size chooses itself."""
