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
TAKEN, REFUSED, NOW, LONGEST = slice(0, 5), 5, 6, 7
"""Places in the sums: of the steps that were taken loss, step, share at the cap, trials and number;
the number of steps that were refused; steps in a row whose loss was not finite, up to now and the
longest."""


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


class Meter:
    """Adds up what an optimizer reports, on the device, or on the host for a line search.

    Everything is done in place, because a replayed step writes to the same memory.
    """

    def __init__(self, device: torch.device) -> None:
        self.sums = torch.zeros(8, dtype=torch.float64, device=device)

    def add(self, info: StepInfo) -> None:
        accepted = torch.as_tensor(info.accepted)
        one = torch.ones_like(accepted, dtype=torch.float64)
        # One by one: a tensor of all would have to be copied from the host.
        loss, *others = (
            value.to(torch.float64) if isinstance(value, Tensor) else one * float(value)
            for value in (info.loss, info.step, info.capped, info.trials)
        )
        # A refused step may hold NaN, which no product removes.
        self.sums[TAKEN].add_(torch.where(accepted, torch.stack([loss, *others, one]), 0.0))
        self.sums[REFUSED].add_(one - accepted.to(torch.float64))
        self.sums[NOW].add_(1.0).mul_(torch.isfinite(loss).logical_not())
        self.sums[LONGEST].copy_(torch.maximum(self.sums[NOW], self.sums[LONGEST]))

    def streak(self, place: int) -> int:
        """Steps in a row whose loss was not finite, up to now or the most; waits for the device."""
        return int(self.sums[place])

    def means(self) -> tuple[float, float, float, float, int]:
        """Mean loss, step, share at the cap and trials, and how many steps were refused."""
        loss, step, capped, trials, taken, refused, *_ = self.sums.tolist()
        count, some = max(taken, 1.0), 1.0 if taken else math.nan
        means = some * loss / count, some * step / count, capped / count, trials / count
        return *means, int(refused)

    def clear(self) -> None:
        """Begin a new epoch; a streak goes on."""
        self.sums[:NOW].zero_()


class DivergedError(ValueError):
    """The loss was not finite for too many steps in a row."""


class EpochTrainer(Trainer):
    """Trains on images epoch by epoch; everything that changes is in its :meth:`state_dict`.

    There is no scheduler and no weight decay.
    """

    work: ImageWork

    def __init__(self, work: ImageWork, optimizer: Optimizer, *, captured: bool = True) -> None:
        self.meter = Meter(torch.device("cpu") if searches(optimizer) else work.device)
        ours: Any = optimizer if hasattr(optimizer, "info") else None
        report = (lambda: self.meter.add(ours.info)) if ours else int
        super().__init__(work, optimizer, report, captured=captured)
        self.history: list[EpochRow] = []
        self._begin = 0.0  # of the epoch in progress, as if it had never stopped

    @property
    def done(self) -> int:
        """Steps of the epoch in progress."""
        return self.work.done - len(self.history) * self.work.train.batches

    def epoch(self, after_step: Callable[[], object] = int) -> EpochRow:
        """Go on to the end of the epoch in progress.

        Raises:
            DivergedError: the loss was not finite for ten steps in a row.
        """
        steps, number = self.work.train.batches, len(self.history) + 1
        if not self.done:
            self._begin = time.perf_counter()
        while self.done < steps:
            self.take_step()
            if self.done % LOOK_EVERY == 0 or self.done == steps:
                streak = self.meter.streak(LONGEST)
                if streak >= BAD_STEPS:
                    raise DivergedError(
                        f"the loss was not finite for {streak} steps in a row, in epoch {number}"
                    )
            after_step()
        (loss, *others), tested = self.meter.means(), self.work.measured()
        row = EpochRow._make([number, loss, *tested, *others, time.perf_counter() - self._begin])
        self.history.append(row)
        self.meter.clear()
        return row

    def state_dict(self) -> dict[str, Any]:
        """Everything that a run needs to go on as if it had never stopped."""
        streams = {"cpu": torch.get_rng_state()}
        if self.work.device.type == "cuda":  # other GPUs do not matter
            streams["gpu"] = torch.cuda.get_rng_state(self.work.device)
        return {
            "network": self.work.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "streams": streams,
            "meter": self.meter.sums.cpu(),
            "history": [list(row) for row in self.history],
            "done": self.done,
            "seconds": time.perf_counter() - self._begin,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.work.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["streams"]["cpu"])
        if self.work.device.type == "cuda":
            torch.cuda.set_rng_state(state["streams"]["gpu"], self.work.device)
        self.meter.sums.copy_(state["meter"])
        self.history = [EpochRow(*row) for row in state["history"]]
        self.work.done = len(self.history) * self.work.train.batches + state["done"]
        self._begin = time.perf_counter() - state["seconds"]


def save_checkpoint(path: Path, run: str, state: dict[str, Any]) -> None:
    """Write a checkpoint in place of the last one.

    It begins with the hash of the rest, because torch does not notice a bit that has changed.
    ``run`` is everything that decides how the run goes on.
    """
    body = io.BytesIO()
    torch.save((run, state), body)
    write_atomically(path, hashlib.sha256(body.getvalue()).digest() + body.getvalue())


def load_checkpoint(path: Path, run: str) -> dict[str, Any] | None:
    """The state in a checkpoint, on the CPU; None if there is no file.

    Raises:
        ValueError: the file is damaged, or is the checkpoint of another run.
    """
    if not path.exists():
        return None
    whole = path.read_bytes()
    if hashlib.sha256(whole[32:]).digest() != whole[:32]:
        raise ValueError(f"{path} is no whole checkpoint: remove it to begin again")
    made_by, state = torch.load(io.BytesIO(whole[32:]), map_location="cpu", weights_only=True)
    if made_by != run:
        raise ValueError(
            f"{path} is the checkpoint of another run, version or precision: it was made by "
            f"{made_by}; remove it to begin again"
        )
    found: dict[str, Any] = state
    return found
