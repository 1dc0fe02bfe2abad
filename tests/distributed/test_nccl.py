"""On GPUs, over NCCL: ranks take the steps of one process that has the whole batch."""

import pytest
import torch

from tests.distributed import worker
from tests.distributed.test_ranks import trained_alone
from tests.helpers.launch import found_by

GPUS = torch.cuda.device_count()
JOBS = ["gpu ddp/float64", "gpu fsdp/float64"]
pytestmark = pytest.mark.gpu


def needs(count):
    return pytest.mark.skipif(count > GPUS, reason=f"needs {count} CUDA GPUs, there are {GPUS}")


@pytest.mark.parametrize("ranks", [pytest.param(count, marks=needs(count)) for count in (1, 2)])
def test_ranks_are_one_process_with_the_whole_batch(ranks, tmp_path):
    found = found_by(ranks, worker.__file__, *JOBS, tmp_path)
    for name, make in worker.METHODS.items():
        parameters, taken = trained_alone(make, torch.float64, device="cuda")
        trials = [each for *_, each in taken]
        for job in JOBS:
            first, *others = (rank[job][name] for rank in found)
            torch.testing.assert_close(first["parameters"], parameters, rtol=0.0, atol=1e-10)
            assert [each for *_, each in first["taken"]] == trials
            assert first["messages"] == (0 if ranks == 1 else worker.STEPS + sum(trials))
            for other in others:  # to the bit
                assert torch.equal(other["parameters"], first["parameters"])
                assert other["taken"] == first["taken"]
