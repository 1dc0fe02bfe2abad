"""Cost of a step on several processes; each method has a network under DistributedDataParallel."""

import json
import tempfile
from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch

# Its functions keep the group that there is when torch first imports it, here none. Otherwise the
# group would outlive destroy_process_group(), and its threads might abort a process that ends.
import torch.distributed.nn
from torch import Tensor, distributed, nn
from torch.multiprocessing.spawn import ProcessException, spawn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from heavystep import validation
from heavystep.lab.cost.networks import (
    CLASSES,
    SETTLED,
    Make,
    in_turns,
    optimizers,
    sgd,
    synchronize,
)
from heavystep.lab.training.trainer import usual_step

FEATURES, WIDTH = 64, 256
PATIENCE = timedelta(seconds=60)  # after this time a rank gives up waiting for another one


class RankSize(NamedTuple):
    """Rows in a batch of each rank, steps in a turn, and turns."""

    batch: int
    steps: int
    turns: int


FULL, QUICK = RankSize(64, 20, 12), RankSize(8, 4, 1)


class RankCost(NamedTuple):
    """A step on one rank: time, also by that of SGD, the optimizer's all-reduces, and trials."""

    optimizer: str
    ms: float
    ratio: float
    messages: float
    bytes: float
    trials: float


class _Contestant:
    """A method with its network and this rank's batches, and what it has done so far."""

    def __init__(self, make: Make, size: RankSize, device: torch.device) -> None:
        torch.manual_seed(0)
        net = nn.Sequential(
            nn.Linear(FEATURES, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(),
            nn.Linear(WIDTH, CLASSES),
        ).to(device)  # fmt: skip
        self._net = DistributedDataParallel(net)
        self._optimizer = make(self._net)
        generator = torch.Generator().manual_seed(1 + distributed.get_rank())
        teacher = torch.randn(FEATURES, CLASSES, generator=torch.Generator().manual_seed(0))
        rows = torch.randn(size.steps, size.batch, FEATURES, generator=generator)
        self._batches = [(x.to(device), (x @ teacher).argmax(dim=1).to(device)) for x in rows]
        self.done = np.zeros(4)  # steps, losses, messages and bytes

    def take(self, steps: int) -> None:
        real, done = distributed.all_reduce, self.done

        def noted(tensor: Tensor, *arguments: Any, **options: Any) -> Any:
            done[2:] += 1, tensor.numel() * tensor.element_size()
            return real(tensor, *arguments, **options)

        with patch.object(distributed, "all_reduce", noted):
            for _ in range(steps):
                usual_step(self._optimizer, self._loss)
                done[0] += 1
        synchronize()

    def _loss(self) -> Tensor:
        x, y = self._batches[int(self.done[0]) % len(self._batches)]
        self.done[1] += 1
        return cross_entropy(self._net(x), y)


def ranks_cost(ranks: int, size: RankSize) -> list[RankCost]:
    """The costs of all methods with this many ranks, those of SGD first, as rank 0 measures them.

    Raises:
        ValueError: ``ranks`` is out of range, or one of the ranks failed.
    """
    validation.integer("ranks", ranks, least=1)
    with tempfile.TemporaryDirectory() as folder:
        try:
            spawn(_rank, (ranks, size, folder), nprocs=ranks)  # type: ignore[no-untyped-call]
        except ProcessException as error:
            last = str(error).strip().splitlines()[-1]
            raise ValueError(f"rank {error.error_index} of {ranks} failed: {last}") from None
        return [RankCost(*each) for each in json.loads((Path(folder) / "found.json").read_text())]


def _rank(rank: int, ranks: int, size: RankSize, folder: str) -> None:
    """One process: NCCL where every rank has a GPU of its own, else gloo on the CPU."""
    torch.set_num_threads(1)
    backend = "nccl" if torch.cuda.device_count() >= ranks else "gloo"
    device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    distributed.init_process_group(
        backend, f"file://{folder}/store", PATIENCE, world_size=ranks, rank=rank
    )
    # In a function of its own: a DistributedDataParallel that is freed after the group waits for
    # gloo's threads while it holds the interpreter, for which they may wait (pytorch issue 56297).
    found = costs_in_group(size, device)
    if rank == 0:
        (Path(folder) / "found.json").write_text(json.dumps(found))
    distributed.barrier()  # whoever leaves first closes connections that others still use
    distributed.destroy_process_group()


def costs_in_group(size: RankSize, device: torch.device) -> list[RankCost]:
    """The costs of all methods, those of SGD first, with the ranks of this group."""
    makers = optimizers(SGD=sgd).items()
    known = {name: _Contestant(make, size, device) for name, make in makers}
    for each in known.values():
        each.take(SETTLED)
        each.done[:] = 0.0
    jobs = {name: partial(each.take, size.steps) for name, each in known.items()}
    times = in_turns(jobs, size.turns, before=distributed.barrier)  # all ranks begin together
    found, first = [], median(times["SGD"])
    for name, each in known.items():
        steps, losses, messages, sent = each.done
        ms = 1e3 * median(times[name]) / size.steps
        found.append(RankCost(name, ms, median(times[name]) / first, messages / steps,
                              sent / steps, losses / steps - 1.0))  # fmt: skip
    return found
