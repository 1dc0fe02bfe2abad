"""Numbers change only with a version: otherwise stored runs would be taken for what they are not."""

import json

import pytest

from tests.helpers.pinned_runs import (
    FILE,
    KERNEL,
    changed,
    measured,
    rules_in_cases,
    rules_in_registry,
    to_raise,
)

AGAIN = "pin the numbers anew: python -m tests.helpers.pinned_runs"


def test_numbers_change_only_with_a_version():
    pinned, now = json.loads(FILE.read_text()), measured()
    assert set(pinned) == set(now), AGAIN
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


def test_every_rule_is_pinned():
    assert rules_in_cases() == rules_in_registry(), "add a case to tests/helpers/pinned_runs.py"


GRID = {
    f"{rule}{n} {problem}": {"rule": rule, "problem": problem}
    for rule in "ab" for n in (1, 2) for problem in "XY"
}  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (["a1 X", "a2 X", "a1 Y", "a2 Y"], "the version of the rule 'a' in rules/"),
        (["a1 X", "a2 X", "b1 X", "b2 X"], "the version of X in problems/"),
        (list(GRID), KERNEL),
        (["a1 X"], KERNEL),
    ],
)
def test_the_version_to_raise_is_named(wrong, text):
    assert to_raise(GRID, wrong) == text


def test_a_change_is_noticed():
    one = {"loss": [1.0, float("nan")], "step": [0.5, 0.5]}
    assert not changed(one, {"loss": [1.0 + 1e-11, float("nan")], "step": [0.5, 0.5]})
    assert changed(one, {"loss": [1.0 + 1e-8, float("nan")], "step": [0.5, 0.5]})
    assert changed(one, {"loss": [1.0, float("nan")]})
