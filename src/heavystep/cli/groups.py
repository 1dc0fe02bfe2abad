"""Groups of commands: summaries that are not cut, and commands imported when they are called."""

from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group


class Group(TyperGroup):
    """A group whose help shows the first paragraph of each command in full."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a line, or several, for each command."""
        rows = [(name, self.summary(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([row for row in rows if row[1]])

    def summary(self, ctx: Any, name: str) -> str:
        """The first paragraph of a command's help; nothing if the command is hidden."""
        command: Any = self.get_command(ctx, name)
        return "" if command.hidden else first_paragraph(command.help)


def first_paragraph(text: str | None) -> str:
    r"""The text up to the first empty line, in one line.

    >>> first_paragraph("What it does,\nin full.\n\nDetails.")
    'What it does, in full.'
    """
    return " ".join((text or "").partition("\n\n")[0].split())


class Lazy(NamedTuple):
    """A command that is not imported before it is called."""

    module: str
    """The module of this package that has it, under the command's name."""
    summary: str
    """What it does; the command's own help begins with the same paragraph."""


def lazy_group(table: dict[str, Lazy]) -> type[Group]:
    """A group of these commands. Its help and its suggestions import none of them."""

    class LazyGroup(Group):
        def __init__(self, **arguments: Any) -> None:
            super().__init__(**arguments)
            self._missing = dict(table)
            # The names are what a misspelt one is compared with.
            self.commands = {**self.commands, **dict.fromkeys(table)}  # type: ignore[dict-item]

        def list_commands(self, ctx: Any) -> list[str]:
            return list(self.commands)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if cmd_name in self._missing:
                where = self._missing.pop(cmd_name).module
                self.commands[cmd_name] = _command(cmd_name, where)
            return self.commands.get(cmd_name)

        def summary(self, ctx: Any, name: str) -> str:
            return table[name].summary if name in table else super().summary(ctx, name)

    return LazyGroup


def _command(name: str, module: str) -> Any:
    """The command of that name: a function, or a group of its own."""
    found = getattr(import_module(f"heavystep.cli.{module}"), name)
    if isinstance(found, typer.Typer):
        group = get_group(found)
        group.name = name
        return group
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name)(found)
    return get_command(alone)


def group_of_commands(text: str, **settings: Any) -> typer.Typer:
    """A group with this text as its help."""
    settings = {"no_args_is_help": True, **settings}
    return typer.Typer(cls=Group, rich_markup_mode=None, help=text, **settings)
