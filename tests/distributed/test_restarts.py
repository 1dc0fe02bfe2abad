"""A rank is killed, torchrun starts all again: they end where a run without a kill ends."""

from functools import cache

import pytest
import torch

from tests.distributed import restarts
from tests.helpers.launch import saved, torchrun

CASES = [
    ("ddp", "SHBPolyak", "after"),
    ("ddp", "SHBArmijo", "trial"),
    ("fsdp", "SHBArmijo", "save"),
    ("fsdp", "SHBPolyak", "evaluation"),
]
pytestmark = pytest.mark.slow  # processes start, die and start again


@pytest.fixture(scope="module")
def unharmed(tmp_path_factory):
    """Parameters of runs that nobody killed, by method, of one way."""

    @cache
    def found(how):
        folder = tmp_path_factory.mktemp(how)
        torchrun(2, restarts.__file__, how, "SHBPolyak,SHBArmijo", "never", folder)
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


@pytest.mark.parametrize(("name", "ranks"), [("SHBPolyak", 1), ("SHBArmijo", 4)])
def test_checkpoints_for_another_number_of_ranks(name, ranks, unharmed, tmp_path):
    """Two ranks begin, and others go on from their checkpoint."""
    begun = torchrun(2, restarts.__file__, "fsdp", name, "after", tmp_path, fails=True)
    assert begun.returncode != 0
    torchrun(ranks, restarts.__file__, "fsdp", name, "never", tmp_path)
    assert (tmp_path / name / "attempts-0").read_text().split() == ["0", "4"]
    for found in saved(tmp_path, ranks):
        torch.testing.assert_close(found[name], unharmed("fsdp")[name], rtol=0.0, atol=1e-12)
