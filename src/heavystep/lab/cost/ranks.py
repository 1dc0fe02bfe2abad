"""What a step costs with several processes, and how many messages it sends.

Every method has a network of its own under DistributedDataParallel, and the methods take turns.
Messages of the optimizer are counted in separate runs, by wrapping
``torch.distributed.all_reduce``; those of the gradients are DistributedDataParallel's own.
"""

import json
import tempfile
from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch

# Its functions keep the group that there is when torch first imports it, here none. Otherwise the
# group would outlive destroy_process_group(), and its threads might abort a process that ends.
import torch.distributed.nn
from torch import Tensor, distributed, nn
from torch.multiprocessing.spawn import ProcessException, spawn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from heavystep import validation
from heavystep.lab.cost import RUNS_A_TURN, in_turns, usual_step
from heavystep.lab.cost.training import Make, optimizers

FEATURES, WIDTH, CLASSES = 64, 256, 10
SETTLED = 5  # after this many steps gradients are in the buckets in which they stay
PATIENCE = timedelta(seconds=60)  # after this time a rank gives up waiting for another one


class Size(NamedTuple):
    """Rows in a batch of each rank, steps in a turn, and turns."""

    batch: int
    steps: int
    turns: int


FULL, QUICK = Size(64, 20, 12), Size(8, 4, 1)


class RankCost(NamedTuple):
    """What a step of one method costs on one rank: all-reduces with so many bytes, and trials."""

    what: str
    seconds: float
    messages: float
    bytes: float
    trials: float


class _Contestant:
    """A method with its network and this rank's batches."""

    def __init__(self, make: Make, size: Size, device: torch.device) -> None:
        torch.manual_seed(0)
        net = nn.Sequential(
            nn.Linear(FEATURES, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(),
            nn.Linear(WIDTH, CLASSES),
        ).to(device)  # fmt: skip
        self._net = DistributedDataParallel(net)
        self._optimizer: Any = make(self._net)
        generator = torch.Generator().manual_seed(1 + distributed.get_rank())
        teacher = torch.randn(FEATURES, CLASSES, generator=torch.Generator().manual_seed(0))
        rows = torch.randn(size.steps, size.batch, FEATURES, generator=generator)
        self._batches = [(x.to(device), (x @ teacher).argmax(dim=1).to(device)) for x in rows]
        self.steps = self.evaluations = 0

    def take(self, steps: int) -> None:
        for _ in range(steps):
            usual_step(self._optimizer, self._loss)
            self.steps += 1
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    def _loss(self) -> Tensor:
        self.evaluations += 1
        x, y = self._batches[self.steps % len(self._batches)]
        return cross_entropy(self._net(x), y)


def ranks_cost(ranks: int, size: Size) -> list[RankCost]:
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
        found = json.loads((Path(folder) / "found.json").read_text())
    return [RankCost(*each) for each in found]


def _rank(rank: int, ranks: int, size: Size, folder: str) -> None:
    """What one process does: NCCL where every rank has a GPU of its own, else gloo on the CPU."""
    torch.set_num_threads(1)
    backend = "nccl" if torch.cuda.device_count() >= ranks else "gloo"
    device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    distributed.init_process_group(
        backend, f"file://{folder}/store", PATIENCE, world_size=ranks, rank=rank
    )
    known, jobs = optimizers(device), {}
    for name, make in known.items():
        contestant = _Contestant(make, size, device)
        contestant.take(SETTLED)
        jobs[name] = partial(contestant.take, size.steps)
    times = in_turns(jobs, size.turns, before=distributed.barrier)  # all ranks begin together
    found = [
        RankCost(name, median(times[name]) / size.steps, *_counted(make, size, device))
        for name, make in known.items()
    ]
    if rank == 0:
        (Path(folder) / "found.json").write_text(json.dumps(found))
    distributed.barrier()  # whoever leaves first closes connections that others still use
    distributed.destroy_process_group()


def _counted(make: Make, size: Size, device: torch.device) -> list[float]:
    """Messages, bytes and trials of a step, in a run as long as the one that is timed."""
    contestant, tally, real = _Contestant(make, size, device), [0, 0], distributed.all_reduce
    contestant.take(SETTLED)
    before, steps = contestant.evaluations, size.turns * RUNS_A_TURN * size.steps

    def noted(tensor: Tensor, *arguments: Any, **options: Any) -> Any:
        tally[0] += 1
        tally[1] += tensor.numel() * tensor.element_size()
        return real(tensor, *arguments, **options)

    distributed.all_reduce = noted
    try:
        contestant.take(steps)
    finally:
        distributed.all_reduce = real
    trials = contestant.evaluations - before - steps
    return [tally[0] / steps, tally[1] / steps, trials / steps]
