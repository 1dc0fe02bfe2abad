"""What all commands share: groups, options made from tables, tables, errors in one line."""

import functools
import inspect
import re
import signal
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from heavystep.extras import MissingExtraError, install, package_of

Command = Callable[..., None]
Names = Callable[[], Iterable[str]]
ENGINES = ("local", "ray", "dask")
DEVICES = ("cpu", "cuda")


def told(command: Command) -> Command:
    """Wrap a command so that errors that a user can mend are one line on stderr and status 2."""

    @functools.wraps(command)
    def wrapped(*args: Any, **values: Any) -> None:
        status = 2
        try:
            return command(*args, **values)
        except (ValueError, TypeError, MissingExtraError) as error:
            text = str(error)
        except KeyboardInterrupt:
            text = "stopped; what is complete is kept, the same command goes on there"
            status = 128 + signal.SIGINT
        except ModuleNotFoundError as missing:
            text = f"this command needs {package_of(missing)}: {install('lab')}"
        except OSError as error:
            text = f"{error.filename or 'output'}: {error.strerror or error}"
        typer.echo(" ".join(text.splitlines()), err=True)
        raise typer.Exit(status) from None

    return wrapped


def show(*contents: Any) -> None:
    """Print tables and lines, one after another."""
    from rich.console import Console

    console = Console()
    console = console if console.is_terminal else Console(width=160)  # a pipe has no width
    for content in contents:
        console.print(content, markup=False, highlight=False)


def table_of(title: str, heading: Sequence[str], rows: Iterable[Sequence[Any]]) -> Any:
    """A table whose names are never cut, and whose numbers stand on the right."""
    from rich.table import Column, Table

    first, *others = heading
    right = (Column(name, justify="right", no_wrap=True) for name in others)
    table = Table(Column(first, no_wrap=True), *right, title=title)
    for row in rows:
        table.add_row(*map(str, row))
    return table


class Group(TyperGroup):
    """A group whose help shows the first paragraph of each command in full."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a line, or several, for each command that is not hidden."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        helps = [
            (n, (c.help or "").partition("\n\n")[0]) for n, c in commands if c and not c.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl([(name, " ".join(text.split())) for name, text in helps])


def group_of_commands(text: str, **settings: Any) -> typer.Typer:
    """A group with this text as its help."""
    settings = {"no_args_is_help": True, **settings}
    return typer.Typer(cls=Group, rich_markup_mode=None, help=text, **settings)


def one_of(names: Names) -> Callable[[str], list[str]]:
    """What the TAB key completes a word to."""
    return lambda incomplete: [name for name in names() if name.startswith(incomplete)]


def list_of(names: Names) -> Callable[[str], list[str]]:
    """What it completes the last of several words to, with commas between them."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in one_of(names)(last)]

    return complete


def method_names() -> Iterable[str]:
    """The names of all methods."""
    from heavystep.methods import METHODS

    return METHODS


def argument_texts(function: Callable[..., Any]) -> dict[str, str]:
    """The text of each argument, from the Args section of the docstring, without its markup."""
    section = (inspect.getdoc(function) or "").partition("Args:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^    (\w+): (.+(?:\n        .+)*)", section, flags=re.MULTILINE)
    plain = {name: re.sub(r":\w+:`~?([^`]+)`", r"\1", text) for name, text in entries}
    return {name: re.sub(r"\s+", " ", text).replace("``", "") for name, text in plain.items()}


def option(
    name: str, kind: Any, default: Any, text: str, complete: Any = None
) -> inspect.Parameter:
    """An option ``--name`` of a command. If its default is False, it is a switch.

    Args:
        name: of the argument.
        kind: its type.
        default: its value if it is not given.
        text: its help.
        complete: the words that the TAB key completes it to, or a function that finds them.
    """
    if isinstance(complete, tuple):
        complete = one_of(functools.partial(tuple, complete))
    info = typer.Option("--" + name.replace("_", "-"), help=text, autocompletion=complete)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info]
    )


def with_options(command: Command, taken: list[inspect.Parameter], text: str) -> Command:
    """Give options and a help text to a command that takes any arguments, for typer to show."""
    command.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
    command.__annotations__ = {option.name: option.annotation for option in taken}
    command.__doc__ = text
    return command
