"""The numbers of a figure as a table."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from heavystep.files import write_atomically


@dataclass(frozen=True)
class Table:
    """The same numbers for files and for the terminal."""

    title: str
    csv: str
    markdown: str
    compact: list[list[str]]
    """The lines that fit on a terminal, the heading first."""
    note: str = ""
    """A line that is shown below the table."""

    def save(self, path: Path) -> list[Path]:
        """Write the table with the endings .csv and .md."""
        paths = []
        for ending, text in (("csv", self.csv), ("md", self.markdown)):
            paths.append(path.with_name(f"{path.name}.{ending}"))
            write_atomically(paths[-1], lambda part: part.write_text(text))  # noqa: B023
        return paths


def csv_text(rows: Sequence[NamedTuple]) -> str:
    """The rows as CSV, under the names of their fields."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(rows[0]._fields)
    writer.writerows(rows)
    return text.getvalue()


def markdown_text(rows: Sequence[NamedTuple], texts: int) -> str:
    """The rows as a Markdown table.

    Args:
        rows: at least one.
        texts: how many of the first fields are texts; the others are numbers.
    """
    titles = [name.replace("_", " ") for name in rows[0]._fields]
    lines = [titles, ["---"] * texts + ["---:"] * (len(titles) - texts)]
    lines += [[*row[:texts], *(f"{number:.4g}" for number in row[texts:])] for row in rows]
    return piped(lines)


def piped(lines: Iterable[Sequence[str]]) -> str:
    r"""Lines of a table in Markdown, the ruler below the heading among them.

    >>> piped([["a", "b"], ["---", "---:"], ["x", "1"]])
    '| a | b |\n| --- | ---: |\n| x | 1 |\n'
    """
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
