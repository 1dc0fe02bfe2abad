"""A rank is killed, torchrun starts all again: they end where a run without a kill ends."""

import json
from functools import cache

import pytest
import torch

from tests.distributed import restarts
from tests.helpers.launch import saved, torchrun

NAMES = ("SHBPolyak", "SHBArmijo")
CASES = [
    ("ddp", "SHBPolyak", "after"),
    ("ddp", "SHBArmijo", "trial"),
    ("fsdp", "SHBArmijo", "save"),
    ("ddp", "SHBPolyak", "save"),
    ("fsdp", "SHBPolyak", "evaluation"),
    ("fsdp", "SHBArmijo", "trial"),
]
pytestmark = pytest.mark.slow  # processes start, die and start again
BEFORE_THE_KILL = 4
"""Steps in the last whole checkpoint: the one of 6 is not begun, or half written."""


@pytest.fixture(scope="module")
def unharmed(tmp_path_factory):
    """Parameters of runs that nobody killed, by method, of one way."""

    @cache
    def found(how):
        folder = tmp_path_factory.mktemp(how)
        torchrun(2, restarts.__file__, how, ",".join(NAMES), "never", folder)
        assert not list(folder.glob("*/killed.json"))
        return saved(folder, 2)[0]

    return found


@pytest.mark.parametrize(("how", "name", "moment"), CASES)
def test_a_killed_rank_changes_nothing(how, name, moment, unharmed, tmp_path):
    torchrun(2, restarts.__file__, how, name, moment, tmp_path, restarts=1)
    notes = tmp_path / name
    killed = json.loads((notes / "killed.json").read_text())
    assert (killed["moment"], killed["step"]) == (moment, restarts.MOMENTS[moment])
    for rank, found in enumerate(saved(tmp_path, 2)):
        attempts = [line.split() for line in (notes / f"attempts-{rank}").read_text().splitlines()]
        assert [int(begin) for begin, _ in attempts] == [0, BEFORE_THE_KILL]
        assert (str(killed["pid"]) == attempts[0][1]) == (rank == killed["rank"])
        assert torch.equal(found[name], unharmed(how)[name])
