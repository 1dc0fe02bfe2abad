"""Prints tables and lines on the terminal, or to a pipe."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from rich.console import Console

_WATCHED: ContextVar[list[Any] | None] = ContextVar("watched", default=None)


def show(*contents: Any) -> None:
    """Print tables and lines, one after another."""
    # A pipe has no width of its own.
    console = Console()
    console = console if console.is_terminal else Console(width=160)
    for content in contents:
        console.print(content, markup=False, highlight=False)
    shown = _WATCHED.get()
    if shown is not None:
        shown.extend(contents)


@contextmanager
def watched() -> Iterator[list[Any]]:
    """Within the block, what is shown is also put into the list."""
    shown: list[Any] = []
    before = _WATCHED.set(shown)
    try:
        yield shown
    finally:
        _WATCHED.reset(before)
