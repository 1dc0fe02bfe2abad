"""What the registry says of a method is true, and nothing is left unsaid."""

import sys

import pytest

from heavystep.methods import METHODS
from heavystep.methods.rows import DERIVED, FROM_MEMORY, SIMPLIFIED

UNSURE = [name for name, row in METHODS.items() if row.evidence in (FROM_MEMORY, SIMPLIFIED)]
DIFFERS = {
    "AdaSLS": "perhaps in where a search begins",
    "AdaSPS": "perhaps in its constants",
    "ALRSHB": "perhaps in the divisor c and the cap",
    "MBCG": "whole batches, not the half that two of them share",
    "MSL": "not for Adam's; perhaps in its constants",
    "SaLSA": "without Adam's direction",
    "SLiSeS": "only the abstract was at hand",
    "SLSDec": "the exponents",
    "ScheduleFreePlus": "momentum is constant",
    "SPSDec": "the exponents",
}
"""Methods that are simplified or not verified, with a part of what is said of it."""


def formulas_of(row):
    """What the file of its rule says."""
    return " ".join(sys.modules[row.rule.start.__module__].__doc__.split())


@pytest.mark.parametrize("name", sorted({*UNSURE, *DIFFERS}))
def test_what_is_simplified_or_not_verified_says_where(name):
    assert DIFFERS[name] in METHODS[name].differs


@pytest.mark.parametrize("name", UNSURE)
def test_the_formula_says_so_too(name):
    row = METHODS[name]
    words = {FROM_MEMORY: "Not verified:", SIMPLIFIED: "Differs from the"}
    assert words[row.evidence] in formulas_of(row)


def test_every_evidence_is_a_known_one():
    known = {"paper", "authors' code", "third-party code", "of this package"}
    assert {row.evidence for row in METHODS.values()} == known | {DERIVED, FROM_MEMORY, SIMPLIFIED}
