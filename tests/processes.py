"""Several real processes, for tests of data parallelism."""

import os
import subprocess
import sys
from pathlib import Path

import torch

TESTS = Path(__file__).parent


def torchrun(script, ranks, *arguments):
    """What each rank saved under the folder that is the last argument."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(ranks), str(script), *map(str, arguments)]
    run = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert run.returncode == 0, run.stderr[-3000:]
    folder = Path(arguments[-1])
    return [torch.load(folder / f"{rank}.pt") for rank in range(ranks)]
