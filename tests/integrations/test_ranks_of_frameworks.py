"""Two processes in a framework take the steps of one that has the whole batch."""

from pathlib import Path

import pytest
import torch

from tests.helpers.by_hand import assert_below_caps, by_hand
from tests.helpers.launch import found_by
from tests.helpers.training import flat, make_batches, make_net

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["lightning", "sharded lightning", "accelerate"])
def test_ranks_are_one_process_with_the_whole_batch(framework, tmp_path):
    pytest.importorskip(framework.rpartition(" ")[2])
    from tests.integrations.framework_worker import BATCHES, RUNS

    first, second = found_by(2, HERE / "framework_worker.py", framework, tmp_path)
    for name, run in RUNS.items():
        assert torch.equal(first[name], second[name])
        net, batches = make_net(dtype=torch.float64), make_batches(BATCHES, dtype=torch.float64)
        opt = run.make(net.parameters())
        by_hand(net, opt, batches, closure=run.searches, micro_batches=run.micro_batches)
        torch.testing.assert_close(first[name], flat(net), rtol=0.0, atol=1e-12)
        if not run.searches:
            assert_below_caps(opt)
