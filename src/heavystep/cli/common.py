"""Common parts of commands: options and groups, names that the TAB key completes, tables."""

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

Command = Callable[..., None]
ENGINES = ("local", "ray", "dask")
DEVICES = ("cpu", "cuda")


def show(*contents: Any) -> None:
    """Print tables and lines, one after another."""
    console = Console()
    console = console if console.is_terminal else Console(width=160)  # a pipe has no width
    for content in contents:
        console.print(content, markup=False, highlight=False)


def table_of(title: str, heading: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """A table whose names are never cut, and whose numbers stand on the right."""
    first, *others = heading
    right = (Column(name, justify="right", no_wrap=True) for name in others)
    table = Table(Column(first, no_wrap=True), *right, title=title)
    for row in rows:
        table.add_row(*map(str, row))
    return table


def list_of(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Completion by the TAB key of a name, or of the last one of a list with commas."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in names if name.startswith(last)]

    return complete


def argument_texts(function: Callable[..., Any]) -> dict[str, str]:
    """The text of each argument, from the Args section of the docstring, without its markup."""
    section = (inspect.getdoc(function) or "").partition("Args:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^    (\w+): (.+(?:\n        .+)*)", section, flags=re.MULTILINE)
    plain = {name: re.sub(r":\w+:`~?([^`]+)`", r"\1", text) for name, text in entries}
    return {name: re.sub(r"\s+", " ", text).replace("``", "") for name, text in plain.items()}


def option(
    name: str, kind: Any, default: Any, text: str, names: Iterable[str] | None = None
) -> inspect.Parameter:
    """An option ``--name`` of a command, with the names that the TAB key completes it to.

    If its default is False, it is a switch.
    """
    complete = None if names is None else list_of(names)
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
