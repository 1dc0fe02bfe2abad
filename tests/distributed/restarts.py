"""Trains with checkpoints while a rank kills itself; run by torchrun, one process a rank.

The first attempt ends with SIGKILL at a moment of one's choice, torchrun starts all ranks again,
and they go on from the last checkpoint. What each attempt began with and where the kill fell is
noted on disk.
"""

import json
import os
import signal
import sys
from pathlib import Path

import torch
from torch import distributed
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)

from tests.distributed.worker import STEPS, make, processes, share, whole, wrapped
from tests.helpers.training import loss_of, make_batches, make_net

BETWEEN_CHECKPOINTS = 2
MOMENTS = {"after": 4, "evaluation": 5, "trial": 5, "save": 5}
"""When one may die, and in or after which step, counted from 0: 4 are in a checkpoint by then.

The one of 6 steps, which "save" interrupts, follows the step 5.
"""


class Killer:
    """Ends this process at one moment of the first attempt.

    Args:
        moment: out of MOMENTS, or "never".
        rank: of the process that dies.
        out: the folder for notes.
    """

    def __init__(self, moment, rank, out):
        first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
        self._armed = moment if first and distributed.get_rank() == rank else None
        self._out = out
        self.step = 0

    def at(self, moment):
        """Die here, if it is time."""
        if moment == self._armed and self.step == MOMENTS[moment]:
            note = {"moment": moment, "step": self.step}
            note |= {"rank": distributed.get_rank(), "pid": os.getpid()}
            (self._out / "killed.json").write_text(json.dumps(note))
            os.kill(os.getpid(), signal.SIGKILL)


class FileOfOne:
    """A checkpoint that rank 0 writes, for models of which all ranks hold everything."""

    def __init__(self, net, opt, out, killer):
        self._net, self._opt, self._killer = net, opt, killer
        self._path = out / "checkpoint.pt"

    def save(self, done):
        if distributed.get_rank() == 0:
            unfinished = self._path.with_suffix(".unfinished")
            state = {"net": self._net.state_dict(), "opt": self._opt.state_dict(), "done": done}
            torch.save(state, unfinished)
            self._killer.at("save")
            os.replace(unfinished, self._path)

    def load(self):
        """How many steps are done."""
        if not self._path.exists():
            return 0
        state = torch.load(self._path, weights_only=True)
        self._net.load_state_dict(state["net"])
        self._opt.load_state_dict(state["opt"])
        return state["done"]


class FolderOfAll:
    """A checkpoint to which all ranks write their shards: a folder a step, and which one counts."""

    def __init__(self, net, opt, out, killer):
        self._net, self._opt, self._out, self._killer = net, opt, out, killer
        self._latest = out / "latest"

    def _state(self):
        net, opt = self._net, self._opt
        return {"net": get_model_state_dict(net), "opt": get_optimizer_state_dict(net, opt)}

    def save(self, done):
        folder = self._out / f"step-{done}"
        writer = MortalWriter(folder, self._killer)
        checkpoint.save({**self._state(), "done": done}, storage_writer=writer)
        if distributed.get_rank() == 0:
            unfinished = self._latest.with_suffix(".unfinished")
            unfinished.write_text(folder.name)
            os.replace(unfinished, self._latest)

    def load(self):
        """How many steps are done."""
        if not self._latest.exists():
            return 0
        state = {**self._state(), "done": 0}
        checkpoint.load(state, checkpoint_id=self._out / self._latest.read_text())
        set_model_state_dict(self._net, state["net"])
        set_optimizer_state_dict(self._net, self._opt, state["opt"])
        return state["done"]


class MortalWriter(checkpoint.FileSystemWriter):
    """Dies before it writes its shard, when those of others may be there."""

    def __init__(self, folder, killer):
        super().__init__(folder)
        self._killer = killer

    def write_data(self, plan, planner):
        self._killer.at("save")
        return super().write_data(plan, planner)


CHECKPOINTS = {"ddp": FileOfOne, "fsdp": FolderOfAll}
SAVER = {"ddp": 0, "fsdp": 1}
"""The rank to kill in the middle of a checkpoint."""


def trained(how, name, moment, out):
    """Parameters after all steps, from wherever the last checkpoint is."""
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    killer = Killer(moment, SAVER[how] if moment == "save" else 1, out)
    net = wrapped(make_net(dtype=torch.float64), how)
    opt = make(name, net.parameters())
    kept = CHECKPOINTS[how](net, opt, out, killer)
    begin = kept.load()
    with (out / f"attempts-{rank}").open("a") as attempts:
        print(begin, os.getpid(), file=attempts)

    def loss(batch):
        # The line search switches gradients off for its trials.
        killer.at("evaluation" if torch.is_grad_enabled() else "trial")
        return loss_of(net, batch)

    for k, batch in enumerate(make_batches(STEPS, dtype=torch.float64)):
        if k < begin:
            continue
        killer.step = k
        opt.step(lambda: loss(share(batch, rank, ranks)))
        killer.at("after")
        if (k + 1) % BETWEEN_CHECKPOINTS == 0:
            kept.save(k + 1)
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
