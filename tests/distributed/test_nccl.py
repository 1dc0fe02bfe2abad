"""On GPUs, over NCCL: ranks take the steps of one process that has the whole batch."""

import pytest
import torch

from tests.distributed import nccl_worker, worker
from tests.helpers.launch import found_by
from tests.helpers.training import make_net

GPUS = torch.cuda.device_count()
pytestmark = pytest.mark.gpu


def needs(count):
    return pytest.mark.skipif(count > GPUS, reason=f"needs {count} CUDA GPUs, there are {GPUS}")


@pytest.mark.parametrize("ranks", [pytest.param(count, marks=needs(count)) for count in (1, 2)])
def test_ranks_are_one_process_with_the_whole_batch(ranks, tmp_path):
    found = found_by(ranks, nccl_worker.__file__, tmp_path)
    for name in worker.METHODS:
        net = make_net(dtype=torch.float64).to("cuda")
        opt = worker.make(name, net.parameters())
        taken = worker.train(net, opt, nccl_worker.batches("cuda"))
        trials = [each for *_, each in taken]
        for how in nccl_worker.WAYS:
            first, *others = (rank[f"{how} {name}"] for rank in found)
            torch.testing.assert_close(
                first["parameters"], worker.whole(net).cpu(), rtol=0.0, atol=1e-10
            )
            assert [each for *_, each in first["taken"]] == trials
            assert first["messages"] == (0 if ranks == 1 else worker.STEPS + sum(trials))
            for other in others:  # to the bit
                assert torch.equal(other["parameters"], first["parameters"])
                assert other["taken"] == first["taken"]
