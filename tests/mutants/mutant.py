"""One change of the source that some test must notice, and the list of all of them."""

import importlib
import pkgutil
from typing import NamedTuple

from tests import mutants
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


def everyone():
    """The mutants of all tables in this folder."""
    names = [each.name for each in pkgutil.iter_modules(mutants.__path__)]
    modules = [importlib.import_module(f"tests.mutants.{n}") for n in names if n != "__main__"]
    return [each for module in modules for each in getattr(module, "MUTANTS", [])]
