"""The page on sweeps does what it says."""

import re

import pytest

from heavystep.simulation.theory_watch import THEORY_METRICS
from heavystep.simulation.watch import TRAINING_METRICS
from heavystep.sweeps.public import SECTION_5
from tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "sweeps.md").read_text()
FIRST, OBJECTS, ON_RAY = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture
def block(tmp_path, monkeypatch):
    """Runs a block in an empty folder, after those before it."""
    monkeypatch.chdir(tmp_path)
    namespace = {}

    def run(*texts):
        for text in texts:
            exec(compile(text, "sweeps.md", "exec"), namespace)
        return namespace["results"]

    return run


@pytest.mark.slow
def test_the_first_block_runs(block, capsys):
    assert len(block(FIRST)) == 6
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert all(line.endswith("after 2000 steps") for line in lines)


def test_objects_may_be_swept(block, capsys):
    assert len(block("import heavystep", OBJECTS)) == 4
    assert float(capsys.readouterr().out) < 1.0


def test_the_block_on_a_cluster_runs(block):
    pytest.importorskip("ray")
    on_one_machine = ON_RAY.replace(', engine="ray"', "")
    assert on_one_machine != ON_RAY
    block("import heavystep", on_one_machine)
    assert list(block(ON_RAY)) == [("cosine", "SHBPolyak")]  # finds all runs


def test_the_page_names_all_problems_and_metrics():
    for name in (*SECTION_5, *THEORY_METRICS, *TRAINING_METRICS):
        assert f"`{name}`" in PAGE or f'`"{name}"`' in PAGE, name
