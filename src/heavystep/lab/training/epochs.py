"""Training in epochs, with an evaluation after each, and checkpoints of everything that changes."""

import hashlib
import io
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim import Optimizer

from heavystep.lab.store import write_atomically
from heavystep.lab.training.images import ImageWork
from heavystep.lab.training.trainer import LOOK_EVERY, Trainer
from heavystep.optim import StepInfo
from heavystep.optimizers import searches

BAD_STEPS = 10  # a run is given up after this many steps in a row without a finite loss
CHECKPOINT = 2  # the version of the checkpoints
TAKEN, REFUSED = slice(0, 5), 5
"""Places in the sums: of the steps that were taken loss, step, share at the cap, trials and number;
then the number of steps that were refused."""
NOW, LONGEST = 0, 1
"""Places in the streak of steps in a row whose loss was not finite: up to now, and the longest."""


class EpochRow(NamedTuple):
    """Record of one epoch. Means are over the steps that were not refused.

    Args:
        loss: the mean cross-entropy of the minibatches, each before the step taken on it.
        test_accuracy: a share, at the end of the epoch.
        capped: the share of steps at the largest that the cap and the smooth reset allowed.
        trials: how many losses the line search evaluates in a step.
        refused: how many steps were not taken: loss or gradient was not finite, or the search
            failed.
        seconds: the wall time of the epoch, evaluation included.
    """

    epoch: int
    loss: float
    test_loss: float
    test_accuracy: float
    step: float
    capped: float
    trials: float
    refused: int
    seconds: float


class Means(NamedTuple):
    """Means over the steps that were taken, and how many were refused."""

    loss: float
    step: float
    capped: float
    trials: float
    refused: int


class Meter:
    """Adds up what an optimizer reports, on the device, or on the host for a line search.

    Everything is done in place, because a replayed step writes to the same memory.
    """

    def __init__(self, device: torch.device) -> None:
        self._sums = torch.zeros(6, dtype=torch.float64, device=device)
        self._streak = torch.zeros(2, dtype=torch.float64, device=device)

    def add(self, info: StepInfo) -> None:
        accepted = torch.as_tensor(info.accepted)
        one = torch.ones_like(accepted, dtype=torch.float64)
        # One by one: a tensor of all would have to be copied from the host.
        loss, *others = (
            value.to(torch.float64) if isinstance(value, Tensor) else one * float(value)
            for value in (info.loss, info.step, info.capped, info.trials)
        )
        # A refused step may hold NaN, which no product removes.
        self._sums[TAKEN].add_(torch.where(accepted, torch.stack([loss, *others, one]), 0.0))
        self._sums[REFUSED].add_(one - accepted.to(torch.float64))
        self._streak[NOW].add_(1.0).mul_(torch.isfinite(loss).logical_not())
        self._streak[LONGEST].copy_(torch.maximum(self._streak[NOW], self._streak[LONGEST]))

    def in_a_streak(self) -> bool:
        """True if the loss of the last step was not finite. This waits for the device."""
        return bool(self._streak[NOW] > 0.0)

    def longest_streak(self) -> int:
        """The most steps in a row whose loss was not finite. This waits for the device."""
        return int(self._streak[LONGEST])

    def means(self) -> Means:
        """The means over all steps since the last :meth:`clear`. This waits for the device."""
        loss, step, capped, trials, taken, refused = self._sums.tolist()
        count, some = max(taken, 1.0), 1.0 if taken else math.nan
        return Means(
            some * loss / count, some * step / count, capped / count, trials / count, int(refused)
        )

    def clear(self) -> None:
        """Begin a new epoch; a streak goes on."""
        self._sums.zero_()

    def state_dict(self) -> dict[str, Any]:
        return {"sums": self._sums.cpu(), "streak": self._streak.cpu()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._sums.copy_(state["sums"])
        self._streak.copy_(state["streak"])


class DivergedError(ValueError):
    """The loss was not finite for too many steps in a row."""


class EpochTrainer(Trainer):
    """Trains on images epoch by epoch; everything that changes is in its :meth:`state_dict`.

    There is no scheduler and no weight decay.
    """

    work: ImageWork

    def __init__(self, work: ImageWork, optimizer: Optimizer, *, captured: bool = True) -> None:
        self.meter = Meter(torch.device("cpu") if searches(optimizer) else work.device)
        tells = hasattr(optimizer, "info")
        super().__init__(
            work, optimizer, self.report if tells else int, captured=captured, tell_loss=tells
        )
        self.history: list[EpochRow] = []
        # Seconds spent on the epoch in progress before it went on, and when it did.
        self._spent = self._begin = 0.0

    def report(self) -> None:
        """Add the last step to the sums of the epoch."""
        self.meter.add(self.optimizer.info)  # type: ignore[attr-defined]

    @property
    def done(self) -> int:
        """Steps of the epoch in progress."""
        return self.work.done - len(self.history) * self.work.train.batches

    def epoch(self, after_step: Callable[[], object] = int) -> EpochRow:
        """Go on to the end of the epoch in progress.

        Raises:
            DivergedError: the loss was not finite for ten steps in a row.
        """
        steps, self._begin = self.work.train.batches, time.perf_counter()
        while self.done < steps:
            self.take_step()
            if (self.done % LOOK_EVERY == 0 or self.done == steps) and (
                streak := self.meter.longest_streak()
            ) >= BAD_STEPS:
                epoch = len(self.history) + 1
                raise DivergedError(
                    f"the loss was not finite for {streak} steps in a row, in epoch {epoch}"
                )
            after_step()
        (loss, *others), tested = self.meter.means(), self.work.measured()
        seconds = self._seconds()
        row = EpochRow._make([len(self.history) + 1, loss, *tested, *others, seconds])
        self.history.append(row)
        self._spent = 0.0
        self.meter.clear()
        return row

    def _seconds(self) -> float:
        return self._spent + (time.perf_counter() - self._begin if self.done else 0.0)

    def state_dict(self) -> dict[str, Any]:
        """Everything that a run needs to go on as if it had never stopped."""
        streams = {"cpu": torch.get_rng_state()}
        if self.work.device.type == "cuda":  # other GPUs do not matter
            streams["gpu"] = torch.cuda.get_rng_state(self.work.device)
        return {
            "network": self.work.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "streams": streams,
            "meter": self.meter.state_dict(),
            "history": [list(row) for row in self.history],
            "done": self.done,
            "seconds": self._seconds(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.work.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["streams"]["cpu"])
        if self.work.device.type == "cuda":
            torch.cuda.set_rng_state(state["streams"]["gpu"], self.work.device)
        self.meter.load_state_dict(state["meter"])
        self.history = [EpochRow(*row) for row in state["history"]]
        self.work.done = len(self.history) * self.work.train.batches + state["done"]
        self._spent = state["seconds"]


def save_checkpoint(path: Path, run: str, state: dict[str, Any]) -> None:
    """Write a checkpoint in place of the last one.

    It begins with the hash of the rest, because torch does not notice a bit that has changed.
    ``run`` is everything that decides how the run goes on.
    """
    body = io.BytesIO()
    torch.save({"format": CHECKPOINT, "run": run, "state": state}, body)
    whole = hashlib.sha256(body.getvalue()).digest() + body.getvalue()
    write_atomically(path, whole)


def load_checkpoint(path: Path, run: str) -> dict[str, Any] | None:
    """The state in a checkpoint, on the CPU; None if there is no file.

    Raises:
        ValueError: the file is damaged, or is the checkpoint of another run.
    """
    if not path.exists():
        return None
    whole = path.read_bytes()
    digest, body = whole[:32], whole[32:]
    if hashlib.sha256(body).digest() != digest:
        raise ValueError(f"{path} is no whole checkpoint: remove it to begin again")
    content = torch.load(io.BytesIO(body), map_location="cpu", weights_only=True)
    if (content["format"], content["run"]) != (CHECKPOINT, run):
        raise ValueError(
            f"{path} is the checkpoint of another run, version or precision: it was made by "
            f"{content['run']}; remove it to begin again"
        )
    state: dict[str, Any] = content["state"]
    return state
