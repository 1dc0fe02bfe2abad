"""Prints tables and lines on the terminal, or to a pipe."""

from typing import Any

from rich.console import Console


def show(*contents: Any) -> None:
    """Print tables and lines, one after another."""
    # A pipe has no width of its own.
    console = Console()
    console = console if console.is_terminal else Console(width=160)
    for content in contents:
        console.print(content, markup=False, highlight=False)
