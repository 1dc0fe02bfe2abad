"""Trains with every toy on a share of each batch; run by torchrun, one process a rank."""

import os
import sys

import torch
from torch import distributed

from heavystep.optimizers import optimizer_class
from tests.distributed.worker import processes, share, train, whole, wrapped
from tests.helpers.training import make_batches, make_net
from tests.toys.toys import TOYS, registered

STEPS = 6


def trained(rank, ranks):
    """Parameters and steps by toy; one rank trains on whole batches."""
    found = {}
    for name, toy in TOYS.items():
        net = make_net(dtype=torch.float64)
        net = net if ranks == 1 else wrapped(net, "ddp")
        opt = optimizer_class(toy.method.name)(net.parameters(), momentum=0.7, **toy.options)
        batches = [share(batch, rank, ranks) for batch in make_batches(STEPS, dtype=torch.float64)]
        found[name] = {"taken": train(net, opt, batches), "parameters": whole(net)}
    return found


if __name__ == "__main__":
    with processes(), registered():
        found = trained(distributed.get_rank(), distributed.get_world_size())
        torch.save(found, os.path.join(sys.argv[1], f"{distributed.get_rank()}.pt"))
