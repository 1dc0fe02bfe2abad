"""What the registry says of a method is true, and nothing is left unsaid."""

import sys

import pytest
from typer.testing import CliRunner

from heavystep.cli.app import app
from heavystep.methods import METHODS
from heavystep.methods.rows import DERIVED, NOT_VERIFIED, QUOTED, SIMPLIFIED
from tests.helpers.places import ROOT

UNSURE = [n for n, row in METHODS.items() if not row.verified or row.evidence == SIMPLIFIED]


def formulas_of(row):
    """The docstring of its rule's formula."""
    return " ".join(row.rule.start.__doc__.split())


@pytest.mark.parametrize("name", UNSURE)
def test_what_is_simplified_or_not_verified_says_so(name):
    row = METHODS[name]
    assert row.differs
    word = "Differs from the" if row.verified else "Not verified:"
    # Of a rule that another row has too it is the row that simplifies.
    shared = sum(other.rule is row.rule for other in METHODS.values()) > 1
    assert shared or word in formulas_of(row)


@pytest.mark.parametrize("name", [n for n, row in METHODS.items() if not row.verified])
def test_what_is_not_verified_is_marked_everywhere(name):
    row = METHODS[name]
    shown = CliRunner().invoke(app, ["methods", name]).stdout
    assert shown.startswith("Not verified. ")
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        from make_methods import page
    finally:
        sys.path.pop(0)
    assert page(row).splitlines()[2].startswith("**Not verified.** ")
    tables = [line for file in (ROOT / "docs").rglob("*.md")
              for line in file.read_text().splitlines() if line.startswith(f"| `{name}` |")]  # fmt: skip
    assert tables == []  # no results


def test_every_evidence_is_a_known_one():
    known = {"paper", "authors' code", "third-party code", "of this package"}
    assert {row.evidence for row in METHODS.values()} == known | {
        DERIVED, NOT_VERIFIED, QUOTED, SIMPLIFIED,
    }  # fmt: skip
