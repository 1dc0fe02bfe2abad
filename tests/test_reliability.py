"""The page of promises names tests that there are."""

import ast
import re

from tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "reliability.md").read_text()


def test_every_test_that_the_page_names_exists():
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
    assert len(named) > 20
    for file, name in named:
        tree = ast.parse((ROOT / file).read_text())
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_promise_has_a_test():
    rows = re.findall(
        r"^\| (?!promised|-)(.+) \| (.+) \|$", PAGE.split("## Other")[0], re.MULTILINE
    )
    assert len(rows) > 15
    for promise, shown in rows:
        assert "::test_" in shown, promise


def test_the_page_has_the_counts_of_every_campaign():
    from tests.fuzz.__main__ import CAMPAIGNS

    for campaign in CAMPAIGNS:
        tried, failed = re.search(
            rf"^\| {campaign.name} \| ([\d,]+) \| (\d+) \|", PAGE, re.M
        ).groups()
        assert int(tried.replace(",", "")) >= campaign.tries
        assert int(failed) == 0
