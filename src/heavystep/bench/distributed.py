"""What a step costs with several processes, as each of them measures it.

Every method has a network of its own under DistributedDataParallel, and the methods take turns.
Messages are counted in separate runs: those that the optimizer asks for by wrapping
``torch.distributed.all_reduce``, and those of the gradients by a communication hook. What is
counted is not timed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from heavystep.bench.timing import RUNS_A_TURN, in_turns, seconds_of
from heavystep.bench.train import Make, optimizers, usual_step

FEATURES, WIDTH, CLASSES = 64, 256, 10
SETTLED = 5
"""After this many steps gradients are in the buckets in which they stay."""
FORWARD = "forward"


@dataclass(frozen=True)
class Size:
    """The sizes of what is measured."""

    batch: int
    """Rows in a batch of each rank."""
    batches: int
    """How many batches there are, which is also the number of steps in a turn."""
    turns: int
    latencies: int
    """How many all-reduces of two numbers are timed."""


FULL = Size(batch=64, batches=20, turns=12, latencies=400)
QUICK = Size(batch=8, batches=4, turns=1, latencies=5)


@dataclass
class Tally:
    """Counts messages and their bytes."""

    messages: int = 0
    bytes: int = 0

    def note(self, sent: Tensor) -> None:
        """Count one message."""
        self.messages += 1
        self.bytes += sent.numel() * sent.element_size()


@dataclass(frozen=True)
class StepCost:
    """What a step of one method costs on one rank."""

    what: str
    seconds: float
    trials: float
    """How many losses the line search evaluates."""
    messages: float
    """How many all-reduces the optimizer asks for."""
    bytes: float
    gradient_messages: float
    """How many buckets of gradients DistributedDataParallel adds up."""
    gradient_bytes: float


@dataclass(frozen=True)
class RanksCost:
    """What all methods cost with one number of ranks, the baseline first."""

    ranks: int
    where: str
    latency: float
    """Seconds for an all-reduce of two numbers; on one rank the optimizers leave it out."""
    forward: float
    """Seconds for a forward without gradients, as in a trial."""
    steps: list[StepCost]


class Contestant:
    """A method with its network and this rank's batches.

    Args:
        make: makes the optimizer, from the network and the number of steps in an epoch.
        size: number and size of the batches.
        device: where they are.
        hook: called by DistributedDataParallel with each bucket of gradients; None: its default.
    """

    def __init__(
        self, make: Make, size: Size, device: torch.device, hook: Callable[..., Any] | None = None
    ) -> None:
        torch.manual_seed(0)
        net = nn.Sequential(
            nn.Linear(FEATURES, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(),
            nn.Linear(WIDTH, CLASSES),
        ).to(device)  # fmt: skip
        self._net = DistributedDataParallel(net)
        if hook is not None:
            self._net.register_comm_hook(None, hook)
        self._optimizer: Any = make(self._net, size.batches)
        self._batches = made_up_batches(size, device)
        self._device = device
        self.steps = self.evaluations = 0

    def take(self, steps: int) -> None:
        """Take steps, and wait until they are done."""
        for _ in range(steps):
            self._step(*self._batches[self.steps % len(self._batches)])
            self.steps += 1
        wait(self._device)

    def _step(self, x: Tensor, y: Tensor) -> None:
        def loss() -> Tensor:
            self.evaluations += 1
            return cross_entropy(self._net(x), y)

        usual_step(self._optimizer, loss)

    @torch.no_grad()
    def forwards(self, count: int) -> None:
        """Evaluate the loss without gradients, and wait."""
        for k in range(count):
            x, y = self._batches[k % len(self._batches)]
            cross_entropy(self._net(x), y).item()
        wait(self._device)


def made_up_batches(size: Size, device: torch.device) -> list[tuple[Tensor, Tensor]]:
    """The batches of this rank, with labels that depend on the rows."""
    generator = torch.Generator().manual_seed(1 + distributed.get_rank())
    teacher = torch.randn(FEATURES, CLASSES, generator=torch.Generator().manual_seed(0))
    rows = torch.randn(size.batches, size.batch, FEATURES, generator=generator)
    return [(x.to(device), (x @ teacher).argmax(dim=1).to(device)) for x in rows]


def wait(device: torch.device) -> None:
    """Wait until the device has nothing to do."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def measured(size: Size, device: torch.device, where: str) -> RanksCost:
    """What this rank measures, together with the others of the group."""
    known = optimizers(device)
    latency = message_seconds(size.latencies, device)
    contestants = {name: Contestant(make, size, device) for name, make in known.items()}
    for each in contestants.values():
        each.take(SETTLED)
    baseline = next(iter(contestants.values()))
    jobs = {name: partial(each.take, size.batches) for name, each in contestants.items()}
    jobs[FORWARD] = partial(baseline.forwards, size.batches)
    times = in_turns({name: _together(job) for name, job in jobs.items()}, size.turns)
    seconds = {name: median(some) / size.batches for name, some in times.items()}
    steps = [
        StepCost(name, seconds[name], **counted(make, size, device)) for name, make in known.items()
    ]
    return RanksCost(distributed.get_world_size(), where, latency, seconds[FORWARD], steps)


def _together(job: Callable[[], object]) -> Callable[[], Callable[[], object]]:
    """A job that all ranks begin at the same time."""

    def prepare() -> Callable[[], object]:
        distributed.barrier()
        return job

    return prepare


def message_seconds(count: int, device: torch.device) -> float:
    """The median time of an all-reduce of two numbers."""
    numbers = torch.zeros(2, device=device)

    def message() -> None:
        distributed.all_reduce(numbers)
        wait(device)

    message()
    distributed.barrier()
    return median(seconds_of(message) for _ in range(count))


def counted(make: Make, size: Size, device: torch.device) -> dict[str, float]:
    """Trials, messages and bytes of a step, in a run as long as the one that is timed."""
    gradients = Tally()
    with noted() as (real, own):

        def hook(
            _: object,
            bucket: distributed.GradBucket,  # type: ignore[name-defined]
        ) -> torch.futures.Future[Tensor]:
            gradients.note(bucket.buffer())
            mean = bucket.buffer().div_(distributed.get_world_size())
            summed: torch.futures.Future[list[Tensor]] = real(mean, async_op=True).get_future()
            return summed.then(lambda done: done.value()[0])

        contestant = Contestant(make, size, device, hook)

        def seen() -> list[int]:
            sent = [own.messages, own.bytes, gradients.messages, gradients.bytes]
            return [contestant.evaluations - contestant.steps, *sent]

        contestant.take(SETTLED)
        begin, steps = seen(), size.turns * RUNS_A_TURN * size.batches
        contestant.take(steps)
        totals = [last - first for first, last in zip(begin, seen(), strict=True)]
    names = ("trials", "messages", "bytes", "gradient_messages", "gradient_bytes")
    return {name: total / steps for name, total in zip(names, totals, strict=True)}


@contextmanager
def noted() -> Iterator[tuple[Callable[..., Any], Tally]]:
    """The all-reduce as it was, and what is sent through ``torch.distributed.all_reduce``."""
    tally, real = Tally(), distributed.all_reduce

    def note(tensor: Tensor, *arguments: Any, **options: Any) -> Any:
        tally.note(tensor)
        return real(tensor, *arguments, **options)

    distributed.all_reduce = note
    try:
        yield real, tally
    finally:
        distributed.all_reduce = real
