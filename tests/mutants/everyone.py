"""The mutants of all rooms."""

import importlib
import pkgutil

from tests import mutants

NO_ROOMS = {"__main__", "everyone", "mutant"}
ROOMS = sorted(each.name for each in pkgutil.iter_modules(mutants.__path__))
EVERYONE = [
    mutant
    for room in ROOMS
    if room not in NO_ROOMS
    for mutant in importlib.import_module(f"tests.mutants.{room}").MUTANTS
]
