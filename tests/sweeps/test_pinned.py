"""Numbers change only with a version: otherwise stored runs would be taken for what they are not."""

import json

import pytest

from heavystep.methods import METHODS
from tests.helpers.pinned_runs import (
    CASES,
    FILE,
    KERNEL,
    changed,
    measured,
    others,
    runs,
    to_raise,
)

AGAIN = "pin the numbers anew: python -m tests.helpers.pinned_runs"


@pytest.mark.parametrize(
    "which",
    ["paper", *(pytest.param(each, marks=pytest.mark.slow) for each in ("elsewhere", "relatives"))],
)
def test_numbers_change_only_with_a_version(which):
    pinned, now = json.loads(FILE.read_text()), measured(which)
    raised = [name for name in now if pinned[name]["versions"] != now[name]["versions"]]
    wrong = [
        name
        for name in now
        if name not in raised and changed(pinned[name]["metrics"], now[name]["metrics"])
    ]
    if wrong:
        pytest.fail(
            f"other numbers with the same versions: {', '.join(wrong)}. Stored runs have become "
            f"stale: raise {to_raise(now, wrong)}. Then {AGAIN}"
        )
    assert not raised, f"versions of {', '.join(raised)} were raised: {AGAIN}"


def test_every_method_is_pinned():
    assert {method.method for method in (CASES | others()).values()} == set(METHODS)
    assert list(json.loads(FILE.read_text())) == [
        *runs("paper"), *runs("elsewhere"), *runs("relatives"),
    ], AGAIN  # fmt: skip


FORMS = {"a": "light", "b": "heavy", "c": "heavy"}
GRID = {
    f"{rule} {problem}": {"rule": rule, "form": form, "diagonal": "none", "problem": problem}
    for rule, form in FORMS.items()
    for problem in "XY"
}


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (["b X", "b Y"], "the version of the rule 'b' in rules/"),
        (["a X", "b X", "c X"], "the version of X in problems/"),
        (
            ["a X", "a Y"],
            "the version of the rule 'a' in rules/, or the version of the momentum form 'light' in "
            "momentum/",
        ),
        (list(GRID), KERNEL),
        (["a X"], KERNEL),
    ],
)
def test_the_version_to_raise_is_named(wrong, text):
    assert to_raise(GRID, wrong) == text


def test_a_change_is_noticed():
    one = {"loss": [1.0, float("nan")], "step": [0.5, 0.5]}
    assert not changed(one, {"loss": [1.0 + 1e-11, float("nan")], "step": [0.5, 0.5]})
    assert changed(one, {"loss": [1.0 + 1e-8, float("nan")], "step": [0.5, 0.5]})
    assert changed(one, {"loss": [1.0, float("nan")]})
