"""The page on sweeps does what it says."""

import re

import pytest

from tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "sweeps.md").read_text()


def test_the_python_blocks_run(tmp_path, monkeypatch, capsys):
    pytest.importorskip("ray")
    monkeypatch.chdir(tmp_path)
    first, on_ray = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    namespace = {}
    exec(compile(first, "sweeps.md", "exec"), namespace)
    gaps = [float(line.split()[-1]) for line in capsys.readouterr().out.splitlines()]
    assert len(gaps) == 3
    assert max(gaps) < 1.0
    exec(compile(on_ray, "sweeps.md", "exec"), namespace)  # finds all runs
    assert len(namespace["results"]) == 3
