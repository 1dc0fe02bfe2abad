"""A run: one contender trains one task, on the CPU or on a GPU."""

import math
import time
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.optim import swa_utils
from torch.optim.lr_scheduler import LambdaLR

from heavystep.lab.comparison.contenders import Other, contender_of
from heavystep.lab.comparison.tasks import task_of
from heavystep.lab.store import Columns
from heavystep.lab.sweeps import Advance, Run
from heavystep.lab.training.trainer import LOOK_EVERY, Trainer, Work, compiles, hardware_settings
from heavystep.methods import Method
from heavystep.optim import Average
from heavystep.optimizers import searches

WARM_UP = 0.05  # the part of a run in which a schedule rises
LOOP = 1  # to be raised when the same specification would give other numbers
START = "start"  # what stands for a contender in the row of a task before its first step
NUMBERS = ("loss", "metric", "average_loss", "average_metric", "seconds")
"""Numbers of a run: at the end, at the averaged iterate, and the time of its steps."""


@dataclass(frozen=True)
class TaskRun(Run):
    """Everything that decides the numbers of a run.

    Args:
        value: of the main constant; None: nothing is set.
        steps: 0: the network is measured before the first one.
        average: whether the averaged iterate is measured too.
    """

    task: str
    contender: str
    value: float | None
    seed: int
    steps: int
    device: str = "cpu"
    average: bool = False

    @property
    def work(self) -> float:  # type: ignore[override]
        return float(self.steps)

    @property
    def label(self) -> str:
        at = "" if self.value is None else f", {self.value:g}"
        return f"{self.task}, {self.contender}{at}, seed {self.seed}"

    def content(self) -> dict[str, Any]:
        contender = None if self.contender == START else contender_of(self.contender)
        return {
            "task": self.task,
            "versions": {"task": task_of(self.task).version, "loop": LOOP},
            "method": contender.identity(self.value) if contender else START,
            "seed": self.seed,
            "steps": self.steps,
            "device": self.device,
            "average": bool(self.average and contender and contender.ours),
        }

    def compute(self, advance: Advance) -> Columns:
        """Train. A run whose parameters are no longer finite stops, and its numbers are NaN."""
        device, task = torch.device(self.device), task_of(self.task)
        with (
            hardware_settings(small=device.type == "cpu"),
            warnings.catch_warnings(action="ignore"),
        ):
            if task.problem:
                found = {"loss": simulated(self)}
            else:
                work = task.begun(self.seed, device)
                at_start = self.contender == START
                found = work.measured()._asdict() if at_start else train(self, work, advance)
        return {name: np.array([found.get(name, math.nan)]) for name in NUMBERS}


def simulated(run: TaskRun) -> float:
    """The gap at the end of a run on a problem of Section 5, by the compiled kernels."""
    from heavystep.lab.simulation import configure, simulate

    problem = task_of(run.task).problem()  # type: ignore[misc]
    if run.contender == START:
        return float(problem.gap(problem.theta0))
    contender = contender_of(run.contender)
    assert isinstance(contender.kind, Method)  # plans leave all others out
    method = configure(contender.kind.name, **contender.chosen(run.value))
    found = simulate(
        problem, method, seeds=[run.seed], iterations=run.steps, grid=np.array([run.steps]),
        may_stop=True,
    )  # fmt: skip
    return float(found.metrics["gap_last"][0, -1])


def share(k: int, steps: int) -> float:
    """Factor of the learning rate at step ``k``: a linear warm-up, then a cosine.

    >>> [round(share(k, 100), 3) for k in (0, 4, 50, 100)]
    [0.2, 0.996, 0.5, 0.0]
    """
    rising = min(1.0, (k + 1) / max(WARM_UP * steps, 1.0))
    return rising * 0.5 * (1.0 + math.cos(math.pi * k / steps))


def train(run: TaskRun, work: Work, advance: Advance) -> dict[str, float]:
    """The numbers at the end; none if parameters are no longer finite, where it stops."""
    contender, on_gpu = contender_of(run.contender), work.device.type == "cuda"
    other = contender.kind if isinstance(contender.kind, Other) else None
    optimizer: Any = contender.optimizer(work, run.value)
    schedule = LambdaLR(optimizer, partial(share, steps=run.steps)) if contender.cosine else None
    if schedule and on_gpu:  # a recorded step reads a tensor anew
        for group in optimizer.param_groups:
            group["lr"] = torch.tensor(group["lr"], device=work.device)
    average = None if other or not run.average else Average(optimizer, automatic=False)
    if on_gpu and task_of(run.task).gpu and not searches(optimizer) and compiles(work.device):
        work.compile()
    trainer = Trainer(
        work, optimizer, average.update if average else int,
        captured=on_gpu and not (other and other.package),
    )  # fmt: skip
    begin, has_modes = time.perf_counter(), hasattr(optimizer, "eval")
    if has_modes:
        optimizer.train()
    for k in range(run.steps):
        trainer.take_step()
        if schedule:
            schedule.step()
        done = (k + 1) % LOOK_EVERY or LOOK_EVERY
        if done == LOOK_EVERY or k + 1 == run.steps:
            advance(float(done))
            finite = [torch.isfinite(param).all() for param in work.parameters()]
            if not torch.stack(finite).all():  # they can never become so again
                return {}
    seconds = time.perf_counter() - begin
    if has_modes:
        optimizer.eval()
        # BatchNorm has seen another point, as the authors of Schedule-Free say.
        swa_utils.update_bn(work.inputs(), work.network)
    found = work.measured()._asdict() | {"seconds": seconds}
    if average:
        with average.in_place():
            average.update_bn(work.inputs(), work.network)
            loss, metric = work.measured()
        found |= {"average_loss": loss, "average_metric": metric}
    return found
