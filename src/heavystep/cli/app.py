"""The commands of ``heavystep``."""

from typing import Annotated

import typer

from heavystep import __version__
from heavystep.cli.common import Lazy, lazy_group

COMMANDS = {
    "methods": Lazy(
        "methods",
        "List the methods; give a name for its formulas, its arguments and their defaults.",
    ),
    "reproduce": Lazy(
        "reproduce",
        "Run what is missing of a figure, draw it and check the claims about it.",
    ),
    "claims": Lazy(
        "reproduce",
        "Check every claim about the figures that were reproduced, on the stored runs.",
    ),
    "compare": Lazy(
        "lab",
        "Compare methods on tasks: losses, costs, and how much depends on their main constant.",
    ),
    "report": Lazy(
        "lab",
        "Write one HTML page about a results folder: curves, claims, tables and commands.",
    ),
    "theory": Lazy(
        "theory",
        "List the paper's results, compute their constants and bounds, see what they admit.",
    ),
    "bench": Lazy(
        "lab", "Measure what things cost, as ratios within one run, because machines differ."
    ),
    "data": Lazy(
        "lab",
        "List, fetch and check the data sets: which are here, and whether they are whole.",
    ),
}  # fmt: skip
"""Each is imported when it is called, so that this help and tab completion are there at once."""

app = typer.Typer(
    cls=lazy_group(COMMANDS),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


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
