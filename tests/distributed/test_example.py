"""``examples/train_ddp.py``: several ranks train as one, and go on from a checkpoint."""

import re
import subprocess
import sys

import pytest

from tests.helpers.launch import torchrun
from tests.helpers.places import ROOT

EXAMPLE = ROOT / "examples" / "train_ddp.py"
pytestmark = pytest.mark.slow


def epochs(printed):
    """Loss and accuracy after each epoch."""
    rows = re.findall(r"^epoch (\d+): .*loss (\S+), accuracy (\S+)%", printed, flags=re.MULTILINE)
    return {int(epoch): (float(loss), float(accuracy)) for epoch, loss, accuracy in rows}


def test_two_ranks_that_began_again_are_one_process(tmp_path):
    one = subprocess.run(
        [sys.executable, EXAMPLE, "--epochs", "4"], capture_output=True, text=True, check=True
    )
    checkpoint = ("--checkpoint", tmp_path / "digits.pt")
    begun, gone_on = (torchrun(2, EXAMPLE, "--epochs", k, *checkpoint).stdout for k in (1, 4))
    assert "goes on after epoch 1" in gone_on
    expected, found = epochs(one.stdout), epochs(begun) | epochs(gone_on)
    assert sorted(found) == [1, 2, 3, 4]
    for epoch, (loss, accuracy) in expected.items():
        assert found[epoch] == pytest.approx((loss, accuracy), rel=1e-3)
    assert expected[4][0] < 0.5
    assert [path.name for path in tmp_path.iterdir()] == ["digits.pt"]
