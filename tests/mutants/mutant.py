"""One change of the source that some test must notice."""

from typing import NamedTuple

from tests.helpers.places import ROOT


class Mutant(NamedTuple):
    """One change of one file: ``old`` must occur exactly once."""

    name: str
    file: str
    old: str
    new: str
    where: tuple[str, ...] = (
        "conformance/test_rules.py",
        "conformance/test_optimizers.py",
        "optim",
    )
    """The tests that are run, below ``tests``."""

    def source(self):
        """The file that is changed."""
        return ROOT / "src" / "heavystep" / self.file

    def leave_out(self):
        """Arguments that leave slow tests of the optimizers out, which are many, unless named."""
        return ["-m", "not slow"] if "optim" in self.where else []

    def tests(self):
        """The files or folders of the tests that are run."""
        return [ROOT / "tests" / where for where in self.where]
