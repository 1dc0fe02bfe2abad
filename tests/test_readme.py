"""The front page is short and does what it says."""

import re

import pytest

from tests.helpers.pages import blocks
from tests.helpers.places import ROOT

PAGE = ROOT / "README.md"
TEXT = PAGE.read_text()


def test_the_example_runs(capsys):
    (block,) = blocks(PAGE, "python")
    exec(compile(block, "README.md", "exec"), {})
    assert float(re.match(r"loss (\S+), last step", capsys.readouterr().out).group(1)) < 0.1


def test_the_loop_is_short():
    """The promise of the README: a training loop of about ten lines."""
    (block,) = blocks(PAGE, "python")
    loop = block[block.index("opt = ") :].strip().splitlines()
    assert len(loop) <= 10


@pytest.mark.parametrize("sign", ["-", "+"])
def test_both_sides_of_the_change_train(sign):
    """What is taken away is a loop of torch, what comes is one of ours, line for line."""
    (diff,) = blocks(PAGE, "diff")
    code = "\n".join(line[1:] for line in diff.splitlines() if line[0] in (" ", sign))
    loader = "torch.manual_seed(0); x = torch.randn(8, 2); loader = [(x, x)] * 300"
    setting = "import torch, heavystep\nmodel = torch.nn.Linear(2, 2)\nloss_fn = torch.nn.functional.mse_loss"
    namespace = {}
    exec("\n".join([setting, loader, code]), namespace)
    loss, x = namespace["loss"], namespace["x"]
    assert loss < 0.5 * (x**2).mean()


def test_it_is_a_front_page():
    assert len(TEXT.splitlines()) <= 130


def test_its_commands_are_targets():
    makefile = (ROOT / "Makefile").read_text()
    (block,) = blocks(PAGE, "sh")
    targets = re.findall(r"^make (\S+)", block, flags=re.MULTILINE)
    assert len(targets) == 2
    for target in targets:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)
