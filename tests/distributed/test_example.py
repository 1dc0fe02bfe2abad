"""``examples/train_ddp.py``: several ranks train as one, and go on after a rank was killed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.launch import torchrun
from tests.helpers.places import ROOT

HERE = Path(__file__).parent
EXAMPLE = ROOT / "examples" / "train_ddp.py"
EPOCH = 23
"""Steps, and evaluations that rank 1 makes of Polyak's loss."""


def epochs(printed):
    """Loss and accuracy after each epoch."""
    rows = re.findall(r"^epoch (\d+): .*loss (\S+), accuracy (\S+)%", printed, flags=re.MULTILINE)
    return {int(epoch): (float(loss), float(accuracy)) for epoch, loss, accuracy in rows}


@pytest.mark.slow
def test_a_killed_rank_of_two_goes_on_as_one_process(tmp_path):
    one = subprocess.run(
        [sys.executable, EXAMPLE, "--epochs", "4"], capture_output=True, text=True, check=True
    )
    arguments = [EXAMPLE, "--epochs", 4, "--checkpoint", tmp_path / "digits.pt"]
    two = torchrun(2, HERE / "mortal.py", EPOCH + 10, *arguments, restarts=1)
    assert "goes on after epoch 1" in two.stdout
    assert "goes on" not in one.stdout
    expected, found = epochs(one.stdout), epochs(two.stdout)
    assert sorted(found) == [1, 2, 3, 4]
    for epoch, (loss, accuracy) in expected.items():
        assert found[epoch] == pytest.approx((loss, accuracy), rel=1e-3)
    assert expected[4][0] < 0.5
    assert [path.name for path in tmp_path.iterdir()] == ["digits.pt"]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["armijo", "sps", "sls"])
def test_every_method_learns(method):
    run = torchrun(2, EXAMPLE, "--epochs", 3, "--method", method)
    assert epochs(run.stdout)[3][1] > 80.0
