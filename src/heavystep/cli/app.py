"""The commands of ``heavystep``. None imports torch, numba or matplotlib before it is called."""

from typing import Annotated

import typer

from heavystep import __version__
from heavystep.cli import lab, methods, reproduce, theory
from heavystep.cli.common import Group

app = typer.Typer(
    cls=Group, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None
)
for _command in (
    methods.methods, reproduce.reproduce, reproduce.claims, lab.compare, lab.report,
):  # fmt: skip
    app.command(_command.__name__.lstrip("_"))(_command)
for _name, _group in {"theory": theory.theory, "bench": lab.bench, "data": lab.data}.items():
    app.add_typer(_group, name=_name)


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
    """Stochastic heavy ball whose step size chooses itself.

    'heavystep COMMAND --help' tells what a command takes; --install-completion lets the TAB key
    complete commands, options and names.
    """
