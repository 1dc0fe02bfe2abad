"""What a figure needs in order to be reproduced, whatever its runs are."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from heavystep import validation
from heavystep.paper.claim import Claim
from heavystep.paper.figure import Figure
from heavystep.paper.table import Table

LARGEST = 10**10
"""Sizes above it are slips of the keyboard."""
Chosen = Mapping[str, Any]
"""What the user chose, by the names of :meth:`Reproducible.choices`."""


class UnfinishedError(Exception):
    """Time ran out before all runs were complete."""


@dataclass(frozen=True)
class Reproducible(ABC):
    """How a figure is made, at full size and quickly, what is shown and claimed of it."""

    make: Callable[..., Figure[Any]]
    pictures: Callable[[Figure[Any], Any], dict[str, Any]]
    claims: Callable[[Figure[Any], Any], list[Claim]]
    full: dict[str, Any]
    quick: dict[str, Any]
    table: Callable[[Figure[Any], Any], Table] | None = None

    unit: ClassVar[str]
    """What a run's length is counted in."""
    least: ClassVar[dict[str, int]]
    """Sizes that can be chosen, and the least of each."""

    @abstractmethod
    def choices(self) -> tuple[str, ...]:
        """Everything that can be chosen."""

    @abstractmethod
    def figures(self, *, quick: bool, chosen: Chosen, folder: Path) -> list[Figure[Any]]:
        """The paper's figure and its companions; reads data and runs, and writes nothing.

        Raises:
            ValueError: a choice is out of range, or what the figure needs is not here.
        """

    @abstractmethod
    def complete(
        self, runs: dict[str, Any], folder: Path, progress: Any, chosen: Chosen
    ) -> dict[str, Any]:
        """Results by key: those kept in ``folder`` are read, the others made and kept.

        Raises:
            UnfinishedError: time ran out.
        """

    @abstractmethod
    def evaluated(self, name: str, folder: Path, note: Callable[[str], None]) -> list[Claim]:
        """The claims on the runs that are kept in ``folder``; none if they do not suffice."""

    def sizes(self, *, quick: bool, chosen: Chosen) -> dict[str, Any]:
        """Sizes of the runs.

        Raises:
            ValueError: one is out of range.
        """
        sizes = dict(self.quick if quick else self.full)
        for name, least in self.least.items():
            if name in chosen:
                validation.integer(name, chosen[name], least)
                if chosen[name] > LARGEST:
                    raise ValueError(f"{name} must be <= {LARGEST:g}, got {chosen[name]}")
                sizes[name] = chosen[name]
        return sizes
