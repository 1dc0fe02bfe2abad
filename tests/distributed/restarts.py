"""Trains with checkpoints while rank 1 kills itself; run by torchrun, one process a rank.

The first attempt ends with SIGKILL at a moment of one's choice, torchrun starts all ranks again,
and they go on from the last checkpoint. Notes tell where each attempt began and the kill fell.
"""

import os
import signal
import sys
from pathlib import Path

import torch
from torch import distributed
from torch.distributed import checkpoint

from tests.distributed.worker import STEPS, kept, load, make, processes, share, whole, wrapped
from tests.helpers.training import loss_of, make_batches, make_net

BETWEEN_CHECKPOINTS = 2
MOMENTS = {"after": 4, "evaluation": 5, "trial": 5, "save": 5}
"""When rank 1 may die, and in or after which step, counted from 0: 4 are in a checkpoint by then."""


class MortalWriter(checkpoint.FileSystemWriter):
    """May die before it writes its shard, when those of others may be there."""

    def __init__(self, folder, reached):
        super().__init__(folder)
        self._reached = reached

    def write_data(self, plan, planner):
        self._reached("save")
        return super().write_data(plan, planner)


def trained(how, name, moment, out):
    """Parameters after all steps, from wherever the last checkpoint is."""
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    mortal = rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    net = wrapped(make_net(dtype=torch.float64), how)
    opt, latest = make(name, net.parameters()), out / "latest"
    begin = load(out / latest.read_text(), net, opt, done=0)["done"] if latest.exists() else 0
    with (out / f"attempts-{rank}").open("a") as attempts:
        print(begin, file=attempts)

    def reached(now):
        if mortal and (now, k) == (moment, MOMENTS.get(moment)):
            (out / "killed").write_text(f"{moment} {k}")
            os.kill(os.getpid(), signal.SIGKILL)

    def loss(batch):
        # The line search switches gradients off for its trials.
        reached("evaluation" if torch.is_grad_enabled() else "trial")
        return loss_of(net, batch)

    for k, batch in enumerate(make_batches(STEPS, dtype=torch.float64)):
        if k < begin:
            continue
        opt.step(lambda: loss(share(batch, rank, ranks)))
        reached("after")
        if (k + 1) % BETWEEN_CHECKPOINTS == 0:
            writer = MortalWriter(out / f"step-{k + 1}", reached)
            checkpoint.save(kept(net, opt, done=k + 1), storage_writer=writer)
            if rank == 0:
                (out / "unfinished").write_text(f"step-{k + 1}")
                os.replace(out / "unfinished", latest)
    return whole(net)


def main(how, names, moment, out):
    found = {}
    for name in names.split(","):
        folder = Path(out) / name
        folder.mkdir(exist_ok=True)
        found[name] = trained(how, name, moment, folder)
    torch.save(found, os.path.join(out, f"{distributed.get_rank()}.pt"))


if __name__ == "__main__":
    with processes():
        main(*sys.argv[1:])
