"""The tables of mutants fit the source as it is, so that a moved line is noticed at once."""

from tests.helpers.places import ROOT
from tests.mutants.everyone import EVERYONE, NO_ROOMS, ROOMS


def times(mutant):
    """How often what it changes occurs."""
    return mutant.source().read_text().count(mutant.old) if mutant.source().is_file() else None


def test_every_mutant_changes_one_place():
    lost = [f"{m.file}: {m.name}: {times(m)} times {m.old!r}" for m in EVERYONE if times(m) != 1]
    assert not lost, "\n".join(lost)
    assert all(mutant.new != mutant.old for mutant in EVERYONE)


def test_every_mutant_names_tests_that_exist():
    for mutant in EVERYONE:
        for path in mutant.tests():
            assert path.exists(), f"{mutant.name}: no tests at {path.relative_to(ROOT)}"


def test_every_mutant_is_one_of_its_own():
    changes = [mutant[1:] for mutant in EVERYONE]
    assert len(set(changes)) == len(changes)


def test_every_table_of_mutants_is_a_room():
    """Modules that belong to no room are in ``base``; the laboratory has a table for each half."""
    source = ROOT / "src" / "heavystep"
    rooms = {path.stem for path in source.iterdir()}
    assert {room.partition("_")[0] for room in set(ROOMS) - NO_ROOMS} <= {
        *(room.partition("_")[0] for room in rooms), "base",
    }  # fmt: skip
