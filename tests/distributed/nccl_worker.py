"""Trains a small network on GPUs, one a rank, under DDP and FSDP2; run by torchrun."""

import os
import sys

import torch
from torch import distributed

from tests.distributed.worker import (
    METHODS,
    STEPS,
    make,
    noted_messages,
    processes,
    share,
    train,
    whole,
    wrapped,
)
from tests.helpers.training import make_batches, make_net

WAYS = ("ddp", "fsdp")


def batches(device, rank=0, ranks=1):
    """This rank's part of each batch."""
    made = make_batches(STEPS, dtype=torch.float64)
    return [tuple(part.to(device) for part in share(batch, rank, ranks)) for batch in made]


def main(out):
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    device, found = torch.device("cuda", rank), {}
    for how in WAYS:
        for name in METHODS:
            net = wrapped(make_net(dtype=torch.float64).to(device), how, "cuda")
            opt = make(name, net.parameters())
            with noted_messages() as sent:
                taken = train(net, opt, batches(device, rank, ranks))
            result = {"parameters": whole(net).cpu(), "taken": taken, "messages": len(sent)}
            found[f"{how} {name}"] = result
    torch.save(found, os.path.join(out, f"{rank}.pt"))


if __name__ == "__main__":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    with processes("nccl"):
        main(*sys.argv[1:])
