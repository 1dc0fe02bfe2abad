"""``--save``: the tables that a command shows, also as a file that pages are made from."""

import functools
import inspect
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.table import Table

from heavystep.cli.options import option, with_options
from heavystep.cli.output import watched
from heavystep.files import write_atomically

Command = Callable[..., None]


def saved(name: str) -> Callable[[Command], Command]:
    """Give a command the option ``--save``.

    Args:
        name: the command as one types it; the file says which command wrote it.
    """

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def wrapped(*args: Any, save: Path | None = None, **values: Any) -> None:
            with saving(save, name):
                command(*args, **values)

        text = "Write the tables to this JSON file too, with the machine and the date."
        extra = option("save", Path | None, None, text)
        taken = [*inspect.signature(command).parameters.values(), extra]
        return with_options(wrapped, taken, command.__doc__ or "")

    return decorate


@contextmanager
def saving(path: Path | None, command: str) -> Iterator[None]:
    """Write the tables that are shown within the block to a file; None: do nothing.

    Args:
        path: the file.
        command: what measured them.

    Raises:
        ValueError: the file has no folder.
    """
    if path is None:
        yield
        return
    if not path.parent.is_dir():  # before the first minute is spent
        raise ValueError(f"cannot write {path}: there is no folder {path.parent}")
    about = {"command": command, **_here()}
    with watched() as shown:
        yield
    tables = [_content(each) for each in shown if isinstance(each, Table)]
    text = json.dumps({**about, "tables": tables}, indent=1, ensure_ascii=False) + "\n"
    write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))


def _here() -> dict[str, Any]:
    """The machine and the moment."""
    from heavystep.bench.timing import load_average, machine
    from heavystep.training.setup import versions

    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "cores": os.cpu_count(),
        "load": round(load_average(), 1),
        "versions": versions(),
    }


def _content(table: Table) -> dict[str, Any]:
    columns = [[str(cell) for cell in column.cells] for column in table.columns]
    return {
        "title": str(table.title or ""),
        "heading": [str(column.header) for column in table.columns],
        "rows": [list(row) for row in zip(*columns, strict=True)],
    }
