"""The commands of ``heavystep``."""

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.main import get_command, get_group

from heavystep import __version__
from heavystep.cli.common import Group

COMMANDS = {
    "methods": (
        "methods",
        "List the methods; give a name for its formulas, its arguments and their defaults.",
    ),
    "reproduce": (
        "reproduce",
        "Run what is missing of a figure, draw it and check the claims about it.",
    ),
    "claims": (
        "reproduce",
        "Check every claim about the figures that were reproduced, on the stored runs.",
    ),
    "compare": (
        "lab",
        "Compare methods on tasks: losses, costs, and how much depends on their main constant.",
    ),
    "report": (
        "lab",
        "Write one HTML page about a results folder: curves, claims, tables and commands.",
    ),
    "theory": (
        "theory",
        "List the paper's results, compute their constants and bounds, see what they admit.",
    ),
    "bench": (
        "lab", "Measure what things cost, as ratios within one run, because machines differ."
    ),
    "data": (
        "lab",
        "List, fetch and check the data sets: which are here, and whether they are whole.",
    ),
}  # fmt: skip
"""Module and summary. A command is imported when it is called: help and completion need none."""


class Commands(Group):
    """All commands; their names are known before they are imported."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command, once."""
        if cmd_name in COMMANDS and self.commands[cmd_name] is None:
            module = import_module(f"heavystep.cli.{COMMANDS[cmd_name][0]}")
            found: Any = getattr(module, cmd_name)
            if isinstance(found, typer.Typer):
                self.commands[cmd_name] = get_group(found)
                self.commands[cmd_name].name = cmd_name
            else:
                alone = typer.Typer(add_completion=False, rich_markup_mode=None)
                alone.command(cmd_name)(found)
                self.commands[cmd_name] = get_command(alone)
        return self.commands.get(cmd_name)

    def summary(self, ctx: Any, name: str) -> str:
        """The first paragraph of the command's own help."""
        return COMMANDS[name][1]


app = typer.Typer(
    cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None
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
