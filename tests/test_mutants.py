"""The tables of mutants fit the source as it is, so that a moved line is noticed at once."""

import ast

from tests.helpers.places import ROOT
from tests.mutants.mutant import everyone

EVERYONE = everyone()


def times(mutant):
    """How often what it changes occurs."""
    return mutant.source().read_text().count(mutant.old) if mutant.source().is_file() else None


def test_every_mutant_changes_one_place():
    lost = [f"{m.file}: {m.name}: {times(m)} times {m.old!r}" for m in EVERYONE if times(m) != 1]
    assert not lost, "\n".join(lost)
    for mutant in EVERYONE:  # any test would notice what is no Python
        ast.parse(mutant.source().read_text().replace(mutant.old, mutant.new))
    assert all(mutant.new != mutant.old for mutant in EVERYONE)
    assert len({mutant[1:] for mutant in EVERYONE}) == len(EVERYONE)


def test_every_mutant_names_tests_that_exist():
    for mutant in EVERYONE:
        for where in mutant.where:
            file, _, name = where.partition("::")
            assert (ROOT / "tests" / file).exists(), f"{mutant.name}: no tests at {file}"
            assert not name or f"def {name}(" in (ROOT / "tests" / file).read_text()
