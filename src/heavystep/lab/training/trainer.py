"""The training loop: epochs of minibatches, with an evaluation after each."""

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer

from heavystep.lab.data import Images
from heavystep.lab.training.images import Colours, DeviceImages, colours, epoch_plan
from heavystep.optim import CapturedStep, StepInfo
from heavystep.optimizers import searches

BAD_STEPS = 10  # a run is given up after this many steps in a row without a finite loss
LOOK_EVERY = 50
"""How many steps lie between two looks for such a row, for which the host waits for the GPU."""
TEST_BATCH = 1000
Network = Callable[[Tensor], Tensor]  # logits from images
TAKEN, REFUSED = slice(0, 5), 5
"""Places in the sums: of the steps that were taken loss, step, share at the cap, trials and number;
then the number of steps that were refused."""
NOW, LONGEST = 0, 1
"""Places in the streak of steps in a row whose loss was not finite: up to now, and the longest."""


class EpochRow(NamedTuple):
    """What is recorded of one epoch. Means are over the steps that were not refused.

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
        """Whether the loss of the last step was not finite. This waits for the device."""
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


def autocast_logits(network: Network, inputs: Tensor) -> Tensor:
    """The logits in float32; on a GPU computed in bfloat16 where autocast thinks it safe."""
    kind = inputs.device.type
    with torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
        logits = network(inputs)
    return logits.float()


@torch.no_grad()
def evaluated(network: Network, images: DeviceImages) -> tuple[float, float]:
    """The mean cross-entropy and the accuracy, a share, of a network in ``eval()``."""
    sums = torch.zeros(2, dtype=torch.float64, device=images.device)
    for inputs, targets in images.in_order():
        logits = autocast_logits(network, inputs)
        right = (logits.argmax(dim=1) == targets).sum()
        sums += torch.stack((cross_entropy(logits, targets, reduction="sum"), right))
    loss, accuracy = (sums / images.count).tolist()
    return loss, accuracy


class Trainer:
    """A network in training: everything that changes is in its :meth:`state_dict`.

    On a GPU the network computes in bfloat16 where autocast thinks it safe, colours are innermost
    in memory, and a step is replayed as CUDA graphs (:class:`~heavystep.CapturedStep`). On a CPU
    everything is float32 and eager. There is no scheduler and no weight decay.

    Args:
        network: gives the logits of the classes; its weights come from the run's seed.
        optimizer: makes an optimizer, from the network and the number of steps in an epoch.
        train: the images to learn from.
        test: those on which the network is evaluated after each epoch.
        seed: decides crops, flips and the order of the images.
        scale: mean and deviation by which images are normalised; None: those of ``train``.
        compiled: whether forward and backward of a step are compiled: other roundings, less time,
            and half a minute before the first step. Evaluation stays as it is.
    """

    def __init__(
        self,
        network: nn.Module,
        optimizer: Callable[[nn.Module, int], Optimizer],
        train: Images,
        test: Images,
        *,
        batch_size: int,
        seed: int,
        device: torch.device,
        scale: Colours | None = None,
        compiled: bool = False,
    ) -> None:
        if not 1 <= batch_size <= len(train.labels):
            least = f"in 1..{len(train.labels)}, the number of training images"
            raise ValueError(f"batch_size must be {least}, got {batch_size}")
        self._gpu, self._seed, self.device = device.type == "cuda", seed, device
        layout = torch.channels_last if self._gpu else torch.contiguous_format
        self.network = network.to(device, memory_format=layout)  # type: ignore[call-overload]
        self.compiled = compiled
        self.precision = "bfloat16 autocast" if self._gpu else "float32"
        """The number format in which the network computes."""
        # Shapes never change. Its state is the network's, which stays what is saved.
        self._training: Network = (
            torch.compile(self.network, dynamic=False) if compiled else self.network
        )
        scale = scale or colours(train.images)
        self._train = DeviceImages(train.images, train.labels, scale, batch_size, device)
        self.images_per_epoch = self._train.batches * batch_size
        self._test = DeviceImages(test.images, test.labels, scale, TEST_BATCH, device)
        self.optimizer: Any = optimizer(self.network, self._train.batches)
        self.meter = Meter(torch.device("cpu") if searches(self.optimizer) else device)
        self.step: Callable[[], object] = CapturedStep(
            self.optimizer, self.loss, prepare=self.prepare, report=self.report
        )
        self.history: list[EpochRow] = []
        self._last_loss: Tensor
        self._done = 0
        """Steps of the epoch in progress."""
        self._seconds = 0.0
        """Time spent on it."""

    def loss(self) -> Tensor:
        logits = autocast_logits(self._training, self._train.inputs)
        loss = cross_entropy(logits, self._train.targets)
        self._last_loss = loss.detach()
        return loss

    def prepare(self) -> None:
        self._train.prepare()

    def report(self) -> None:
        """Add the last step to the sums of the epoch; torch's own optimizers report less of it."""
        info = getattr(self.optimizer, "info", None)
        if info is None:
            lr, loss = self.optimizer.param_groups[0]["lr"], self._last_loss
            taken = torch.isfinite(loss)
            info = StepInfo(lr, lr, loss, None, 0, accepted=taken, capped=False)
        self.meter.add(info)

    def epoch(
        self,
        stopped: Callable[[], bool] = lambda: False,
        advance: Callable[[float], None] = lambda share: None,
    ) -> EpochRow | None:
        """Go on to the end of the epoch in progress.

        Args:
            stopped: asked before each step whether to stop.
            advance: told which share of an epoch was done since the last call.

        Returns:
            What was recorded of the epoch; None if it was stopped before its end.

        Raises:
            DivergedError: the loss was not finite for ten steps in a row.
        """
        begin, steps, epoch = time.perf_counter(), self._train.batches, len(self.history) + 1
        self.begin_epoch()
        while self._done < steps:
            if stopped():
                self._seconds += time.perf_counter() - begin
                return None
            self.take_step()
            advance(1.0 / steps)
            if self._done % LOOK_EVERY and self._done < steps:
                continue
            if (streak := self.meter.longest_streak()) >= BAD_STEPS:
                raise DivergedError(
                    f"the loss was not finite for {streak} steps in a row, in epoch {epoch}"
                )
        means, (test_loss, accuracy) = self.meter.means(), self.evaluate()
        seconds = self._seconds + time.perf_counter() - begin
        loss, *others = means
        row = EpochRow._make([epoch, loss, test_loss, accuracy, *others, seconds])
        self.history.append(row)
        self._done, self._seconds = 0, 0.0
        self.meter.clear()
        return row

    def begin_epoch(self) -> None:
        """Draw the order and the crops of the epoch in progress."""
        plan = epoch_plan(self._train.count, self._seed, len(self.history) + 1)
        self._train.begin(plan)
        self.network.train()

    def take_step(self) -> None:
        """One step on the next minibatch of the epoch."""
        self._train.load(self._done % self._train.batches)
        self.step()
        self._done += 1

    def evaluate(self) -> tuple[float, float]:
        self.network.eval()
        found = evaluated(self.network, self._test)
        self.network.train()
        return found

    def state_dict(self) -> dict[str, Any]:
        """Everything that a run needs to go on as if it had never stopped."""
        streams = {"cpu": torch.get_rng_state()}
        if self._gpu:  # other GPUs do not matter
            streams["gpu"] = torch.cuda.get_rng_state(self.device)
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "streams": streams,
            "meter": self.meter.state_dict(),
            "history": [list(row) for row in self.history],
            "done": self._done,
            "seconds": self._seconds,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["streams"]["cpu"])
        if self._gpu:
            torch.cuda.set_rng_state(state["streams"]["gpu"], self.device)
        self.meter.load_state_dict(state["meter"])
        self.history = [EpochRow(*row) for row in state["history"]]
        self._done, self._seconds = state["done"], state["seconds"]
