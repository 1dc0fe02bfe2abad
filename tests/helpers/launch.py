"""Starts real processes with torchrun."""

import os
import subprocess
import sys
from pathlib import Path

import torch

from tests.helpers.places import ROOT

PATIENCE = 300.0
"""Seconds after which something that did not happen will not; a busy machine is slow."""


def torchrun(ranks, script, *arguments, restarts=0, fails=False):
    """Run a script on several ranks; it must end well, unless one of them is to be killed."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
        "OMP_NUM_THREADS": "1",
        # Otherwise ranks that start again find the addresses of the dead (pytorch issue 135712).
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--max-restarts", str(restarts), "--nproc-per-node", str(ranks)]
    command += [str(script), *map(str, arguments)]
    run = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert fails or run.returncode == 0, run.stderr[-3000:]
    return run


def found_by(ranks, script, *arguments):
    """What each rank saved in the folder that is the last argument."""
    torchrun(ranks, script, *arguments)
    return saved(arguments[-1], ranks)


def saved(folder, ranks):
    """What each rank saved."""
    return [torch.load(Path(folder) / f"{rank}.pt") for rank in range(ranks)]
