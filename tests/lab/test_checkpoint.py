"""Checkpoints that are damaged or of another run are refused."""

import json

import pytest
import torch

from heavystep.lab.training import run as training
from tests.helpers.image_training import RUN, Net

OTHER = json.dumps({"run": {"method": {"options": [["c", 0.5]]}}, "precision": "float32"})


def test_checkpoints_of_another_configuration_are_refused(tmp_path):
    path = tmp_path / "run.pt"
    assert training.load_checkpoint(path, RUN) is None
    training.save_checkpoint(path, RUN, {"a": torch.ones(2)})
    assert torch.equal(training.load_checkpoint(path, RUN)["a"], torch.ones(2))
    said = r"another configuration: method is .*'c', 1\.0.* there, .*'c', 0\.5.* here$"
    with pytest.raises(ValueError, match=said):
        training.load_checkpoint(path, OTHER)


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "zeroed", "pickle"])
def test_damaged_checkpoints_are_refused(damage, tmp_path):
    path = tmp_path / "run.pt"
    training.save_checkpoint(path, RUN, {"a": torch.arange(5000)})
    content = bytearray(path.read_bytes())
    if damage == "pickle":
        torch.save({"format": 2, "run": RUN, "state": Net}, path)
    else:
        changed = {
            "cut": content[: len(content) // 2],
            "empty": b"",
            "text": b"not a checkpoint",
            "zeroed": bytes(len(content)),
        }[damage]
        path.write_bytes(changed)
    with pytest.raises(ValueError, match=r"is no whole checkpoint: remove it to begin again"):
        training.load_checkpoint(path, RUN)


def test_a_checkpoint_that_cannot_be_written_leaves_the_last_one(tmp_path):
    path = tmp_path / "run.pt"
    training.save_checkpoint(path, RUN, {"a": 1})
    with pytest.raises(Exception, match="pickle"):
        training.save_checkpoint(path, RUN, {"a": lambda: None})
    assert training.load_checkpoint(path, RUN) == {"a": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["run.pt"]


@pytest.mark.slow  # thousands of files
def test_whatever_byte_is_wrong_the_state_is_right_or_refused(tmp_path):
    """Damage in the pickle makes torch raise AttributeError and AssertionError, too."""
    path = tmp_path / "run.pt"
    state = {"a": torch.arange(6.0), "b": [1, 2.5, None], "c": torch.ones((), dtype=torch.int64)}
    training.save_checkpoint(path, RUN, state)
    content = path.read_bytes()
    end = content.index(torch.arange(6.0).numpy().tobytes())
    refused = 0
    for place in range(end):
        for bit in (1, 16, 128):
            damaged = bytearray(content)
            damaged[place] ^= bit
            path.write_bytes(damaged)
            try:
                found = training.load_checkpoint(path, RUN)
            except ValueError:
                refused += 1
            else:
                assert torch.equal(found["a"], state["a"])
                assert (found["b"], found["c"]) == (state["b"], state["c"])
    assert refused > end
