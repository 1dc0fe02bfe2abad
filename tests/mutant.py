"""One change of the source that some test must notice."""

from typing import NamedTuple


class Mutant(NamedTuple):
    """One change of one file: ``old`` must occur exactly once."""

    name: str
    file: str
    old: str
    new: str
    where: tuple[str, ...] = ("",)
    """The tests that are run, below ``tests``."""
