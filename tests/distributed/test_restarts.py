"""A rank is killed, torchrun starts all again: they end where a run without a kill ends."""

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


@pytest.fixture(scope="module")
def unharmed(tmp_path_factory):
    """Parameters of runs that nobody killed, by method, of one way."""

    @cache
    def found(how):
        folder = tmp_path_factory.mktemp(how)
        torchrun(2, restarts.__file__, how, ",".join(NAMES), "never", folder)
        assert not list(folder.glob("*/killed"))
        return saved(folder, 2)[0]

    return found


@pytest.mark.parametrize(("how", "name", "moment"), CASES)
def test_a_killed_rank_changes_nothing(how, name, moment, unharmed, tmp_path):
    torchrun(2, restarts.__file__, how, name, moment, tmp_path, restarts=1)
    notes = tmp_path / name
    assert (notes / "killed").read_text() == f"{moment} {restarts.MOMENTS[moment]}"
    for rank, found in enumerate(saved(tmp_path, 2)):
        begun = (notes / f"attempts-{rank}").read_text().split()
        assert begun == ["0", "4"]  # the checkpoint of 6 is not begun, or half written
        assert torch.equal(found[name], unharmed(how)[name])
