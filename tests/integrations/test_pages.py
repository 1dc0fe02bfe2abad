"""The pages on frameworks do what they say: their examples run as printed, and train."""

import math
import re

import pytest

from tests.helpers.places import ROOT

pytestmark = pytest.mark.slow

PAGES = ROOT / "docs" / "frameworks"
UNTRAINED = math.log(3)  # the loss of three classes before the first step

# name: (the package it needs, numbers that it prints)
EXAMPLES = {
    "lightning": ("lightning", 3),
    "accelerate": ("accelerate", 2),
    "trainer": ("transformers", 2),
    "gradscaler": ("torch", 2),
}


def test_every_page_is_tested():
    assert {page.stem for page in PAGES.glob("*.md")} == set(EXAMPLES)


@pytest.mark.filterwarnings("ignore:.*does not have many workers")
@pytest.mark.filterwarnings("ignore:.*LeafSpec.*is deprecated:FutureWarning")
@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true")  # Trainer's default
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run_one_after_another(name, capsys, tmp_path, monkeypatch):
    package, count = EXAMPLES[name]
    pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": name}
    for block in re.findall(
        r"```python\n(.*?)```", (PAGES / f"{name}.md").read_text(), flags=re.DOTALL
    ):
        exec(compile(block, f"{name}.md", "exec"), namespace)
    printed = capsys.readouterr().out.splitlines()
    losses = [float(line) for line in printed if re.fullmatch(r"[\d.e-]+", line)]
    assert len(losses) == count
    assert max(losses) < UNTRAINED / 3
