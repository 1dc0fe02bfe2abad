"""The loop in which every contender trains, on the CPU and on a GPU."""

import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.optim import Optimizer, swa_utils

from heavystep.bench.sensitivity.contenders import contender_of
from heavystep.bench.sensitivity.contract import Contender
from heavystep.bench.tasks import Measured, Size, Work, task_of
from heavystep.optim import Average, CapturedStep, searches
from heavystep.records import Trajectories
from heavystep.sweeps.engines import Advance
from heavystep.training.setup import chosen_kernels, compiles, threads_for

METRICS = ("loss", "metric", "average_loss", "average_metric", "trials", "warnings")
"""At the start and at the end: training loss and metric, also at the averaged iterate, the trials
of a line search, and how many different warnings the optimizer gave."""
LARGEST = "largest_step"
"""Recorded too where it decides which runs are needed: the largest step, before ``lr``."""
WARM_UP = 0.05
"""The part of a run in which a schedule rises."""
LOOK_EVERY = 50
"""Steps between two looks whether parameters are still finite."""
VERSION = 1
"""To be raised when the same specification would give other numbers."""


class Setting(NamedTuple):
    """A run of the loop: everything that decides its numbers."""

    task: str
    contender: str
    value: float | None
    """Of the main constant; None: the untouched default."""
    seed: int
    size: Size
    device: str
    average: bool
    """Whether the averaged iterate is measured too."""


def recorded(setting: Setting) -> tuple[str, ...]:
    """What a run records: :data:`METRICS`, and the largest step that nothing but a cap clips."""
    decides = setting.value is None and contender_of(setting.contender).clipped
    return (*METRICS, LARGEST) if decides else METRICS


def share(k: int, steps: int) -> float:
    """What a linear warm-up and a cosine leave of the learning rate at step ``k``.

    >>> [round(share(k, 100), 3) for k in (0, 4, 50, 100)]
    [0.2, 0.996, 0.5, 0.0]
    """
    rising = min(1.0, (k + 1) / max(WARM_UP * steps, 1.0))
    return rising * 0.5 * (1.0 + math.cos(math.pi * k / steps))


class Schedule:
    """Warm-up and cosine on the learning rates of an optimizer."""

    def __init__(self, optimizer: Optimizer, steps: int, device: torch.device) -> None:
        self._optimizer, self._steps = optimizer, steps
        self._rates = [float(group["lr"]) for group in optimizer.param_groups]
        if device.type == "cuda":  # so that a recorded step reads it anew
            for group, rate in zip(optimizer.param_groups, self._rates, strict=True):
                group["lr"] = torch.tensor(rate, device=device)

    def apply(self, k: int) -> None:
        """Set the learning rates for step ``k``."""
        for group, rate in zip(self._optimizer.param_groups, self._rates, strict=True):
            now = rate * share(k, self._steps)
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(now)
            else:
                group["lr"] = now


class Training:
    """A contender at work on a task."""

    def __init__(self, contender: Contender, work: Work, setting: Setting) -> None:
        self._contender, self._work, self._steps = contender, work, setting.size.steps
        self.optimizer: Any = contender.optimizer(work, setting.value, self._steps)
        self._schedule = (
            Schedule(self.optimizer, self._steps, work.device) if contender.cosine else None
        )
        averaged = setting.average and contender.ours
        self._average = Average(self.optimizer, automatic=False) if averaged else None
        self._largest = (
            torch.zeros((), device=work.device, dtype=torch.float64)
            if LARGEST in recorded(setting)
            else None
        )
        self._searches = searches(self.optimizer)
        self._step = self._captured() if self._records else self._plain
        self.trials, self.seconds = 0, 0.0

    @property
    def _records(self) -> bool:
        return self._work.device.type == "cuda" and self._contender.captured

    def _captured(self) -> Callable[[], object]:
        return CapturedStep(
            self.optimizer, self._work.loss, prepare=self._work.prepare, report=self._report
        )

    def _report(self) -> None:
        """What follows a step; on a GPU it is recorded with it."""
        if self._average:
            self._average.update()
        if self._largest is not None:
            step = self.optimizer.info.base_step
            self._largest.copy_(torch.maximum(self._largest, step.to(self._largest.dtype)))

    def _plain(self) -> None:
        """A step as users write it."""
        self._work.prepare()
        if self._searches:
            self.optimizer.step(self._work.loss)
        else:
            self.optimizer.zero_grad()
            loss = self._work.loss()
            loss.backward()  # type: ignore[no-untyped-call]
            known = self._contender.ours or self._contender.wants_loss
            self.optimizer.step(**({"loss": loss} if known else {}))
        self._report()

    def go(self, advance: Advance) -> bool:
        """Train to the end; False if parameters are no longer finite, and it stops there."""
        begin = time.perf_counter()
        if self._contender.modes:
            self.optimizer.train()
        for k in range(self._steps):
            self._work.next()
            if self._schedule:
                self._schedule.apply(k)
            self._step()
            if self._searches:
                self.trials += int(self.optimizer.info.trials)
            done = (k + 1) % LOOK_EVERY or LOOK_EVERY
            if done == LOOK_EVERY or k + 1 == self._steps:
                advance(float(done))
                if not self._finite():
                    advance(float(self._steps - k - 1))
                    break
        self.seconds = time.perf_counter() - begin
        return self._finite()

    def _finite(self) -> bool:
        """Whether all parameters are finite: others can never become so again."""
        found = [torch.isfinite(param).all() for param in self._work.parameters()]
        return bool(torch.stack(found).all())

    @property
    def largest(self) -> float:
        """The largest step so far, before ``lr``; NaN if nobody asked."""
        return math.nan if self._largest is None else float(self._largest)

    def measured(self) -> Measured:
        """At the point that the optimizer offers as its result."""
        if self._contender.modes:
            self.optimizer.eval()
            # BatchNorm has seen another point, as the authors of Schedule-Free say.
            swa_utils.update_bn(self._work.inputs(), self._work.network)
        return self._work.measured()

    def measured_average(self) -> Measured:
        """At the averaged iterate, if it was asked for."""
        if self._average is None:
            return Measured(math.nan, math.nan)
        with self._average.in_place():
            self._average.update_bn(self._work.inputs(), self._work.network)
            return self._work.measured()


def train(data: None, setting: Setting, advance: Advance) -> Trajectories:
    """Train a task with a contender: the job of an engine.

    A run whose parameters are no longer finite stops, and what it would have reached is NaN.

    Args:
        data: none; the task reads its own.
        setting: the run.
        advance: told how many steps were taken since the last call.
    """
    task, contender = task_of(setting.task), contender_of(setting.contender)
    device = torch.device(setting.device)
    names = recorded(setting)
    records = np.full((2, len(names)), np.nan)
    with _prepared(device), _counted() as texts:
        work = task.begun(setting.seed, device, setting.size)
        training = Training(contender, work, setting)
        line_search = searches(training.optimizer)
        if device.type == "cuda" and task.gpu and not line_search and compiles(device):
            work.compile()
        records[0, :2] = work.measured()
        records[0, 4:] = 0.0
        if training.go(advance):
            records[1, :4] = (*training.measured(), *training.measured_average())
        ends = training.trials, len(texts), training.largest
        records[1, 4:] = ends[: len(names) - 4]
    metrics = {name: records[None, :, place] for place, name in enumerate(names)}
    return Trajectories(
        np.array([0, setting.size.steps]), (setting.seed,), metrics, (training.seconds,)
    )


@contextmanager
def _prepared(device: torch.device) -> Iterator[None]:
    """One thread on the CPU, where small networks gain nothing from more; kernels on a GPU."""
    with ExitStack() as stack:
        stack.enter_context(threads_for("small"))
        if device.type == "cuda":
            stack.enter_context(chosen_kernels())
        yield


@contextmanager
def _counted() -> Iterator[set[str]]:
    """The texts of what optimizers of this package warn of, once the block has ended."""
    texts: set[str] = set()

    def keep(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, RuntimeWarning):
            texts.add(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", RuntimeWarning)
        warnings.simplefilter("ignore", UserWarning)
        warnings.showwarning = keep
        yield texts
