"""Trains in a framework on this process's share of each batch; run by torchrun."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import distributed

from heavystep import SHBArmijo
from tests.helpers.by_hand import polyak
from tests.helpers.training import make_batches, make_net
from tests.integrations import frameworks

BATCHES = 8


class Run(NamedTuple):
    """An optimizer and how a step is made of batches."""

    make: Callable
    searches: bool
    micro_batches: int


RUNS = {"SHBPolyak": Run(polyak, False, 2), "SHBArmijo": Run(SHBArmijo, True, 1)}


def shares(rank, ranks):
    """What a rank sees of each batch."""
    return [
        tuple(part.chunk(ranks)[rank] for part in batch)
        for batch in make_batches(BATCHES, dtype=torch.float64)
    ]


def trained(framework, run, rank, ranks):
    """The parameters."""
    net, options = make_net(dtype=torch.float64), {"micro_batches": run.micro_batches}
    if framework.endswith("lightning"):
        options |= {"devices": ranks, "use_distributed_sampler": False, "strategy": "ddp"}
    if framework == "sharded lightning":
        from lightning.pytorch.strategies import ModelParallelStrategy

        options |= {"strategy": ModelParallelStrategy(ranks, 1), "sharded": True}
    train = frameworks.accelerate if framework == "accelerate" else frameworks.lightning
    train(net, run.make, shares(rank, ranks), **options)
    whole = [
        each.full_tensor() if hasattr(each, "full_tensor") else each for each in net.parameters()
    ]
    return torch.cat([each.detach().flatten() for each in whole])


def main(framework, out):
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    found = {name: trained(framework, run, rank, ranks) for name, run in RUNS.items()}
    assert distributed.get_world_size() == ranks  # the framework made the group
    torch.save(found, Path(out, f"{rank}.pt"))
    distributed.barrier()  # a rank that leaves early closes connections that others still use
    distributed.destroy_process_group()
    # Gloo's threads may outlive the interpreter and then end the process with SIGABRT.
    os._exit(0)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*sys.argv[1:])
