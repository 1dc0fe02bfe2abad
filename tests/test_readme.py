"""The front page is short and does what it says."""

import re
import runpy

import pytest

from tests.helpers.pages import blocks
from tests.helpers.places import ROOT

PAGE = ROOT / "README.md"
TEXT = PAGE.read_text()


def test_the_example_runs(capsys):
    (block,) = blocks(PAGE, "python")
    exec(compile(block, "README.md", "exec"), {})
    assert float(re.match(r"loss (\S+), last step", capsys.readouterr().out).group(1)) < 0.1


@pytest.mark.parametrize("sign", ["-", "+"])
def test_both_sides_of_the_change_train(sign):
    """What is taken away is a loop of torch, what comes is one of ours, line for line."""
    (diff,) = blocks(PAGE, "diff")
    code = "\n".join(line[1:] for line in diff.splitlines() if line[0] in (" ", sign))
    loader = "torch.manual_seed(0); x = torch.randn(8, 2); loader = [(x, x)] * 300"
    setting = "import torch, heavystep\nmodel = torch.nn.Linear(2, 2)\nloss_fn = torch.nn.functional.mse_loss"
    namespace = {}
    exec("\n".join([setting, loader, "first = loss_fn(model(x), x).item()", code]), namespace)
    assert namespace["loss"].item() < 0.9 * namespace["first"]


def test_its_commands_are_targets():
    makefile = (ROOT / "Makefile").read_text()
    (block,) = blocks(PAGE, "sh")
    targets = re.findall(r"^make (\S+)", block, flags=re.MULTILINE)
    assert len(targets) == 2
    for target in targets:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)


def test_its_table_is_that_of_the_results():
    pytest.importorskip("numba")
    made = runpy.run_path(str(ROOT / "docs" / "make_readme_table.py"))
    assert made["updated"](TEXT) == TEXT, "run make pages"
