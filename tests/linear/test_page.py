"""The page about the estimator does what it says."""

import re

from heavystep.linear import solver
from heavystep.linear.curvature import LIMIT
from tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "linear.md").read_text()


def test_its_example_runs(capsys):
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    exec(compile(block, "linear.md", "exec"), {})
    passes, part = re.fullmatch(
        r"(\d+) passes, within (\S+) of the minimum\n", capsys.readouterr().out
    ).groups()
    assert int(passes) < 30
    assert float(part) <= 1e-4


def test_its_numbers_are_those_of_the_code():
    assert f"at least {solver.LEAST} minibatches, at most {solver.STEPS}" in PAGE
    assert f"up to {LIMIT} parameters" in PAGE
