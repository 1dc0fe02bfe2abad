"""A figure in numbers."""

from dataclasses import dataclass
from pathlib import Path

from heavystep.files import write_atomically


@dataclass(frozen=True)
class Table:
    """The same numbers for files and for the terminal."""

    title: str
    csv: str
    markdown: str
    compact: list[list[str]]
    """What fits on a terminal, the heading first."""
    note: str = ""
    """A line below it."""

    def save(self, path: Path) -> list[Path]:
        """Write it with the endings .csv and .md."""
        paths = []
        for ending, text in (("csv", self.csv), ("md", self.markdown)):
            paths.append(path.with_name(f"{path.name}.{ending}"))
            write_atomically(paths[-1], lambda part: part.write_text(text))  # noqa: B023
        return paths
