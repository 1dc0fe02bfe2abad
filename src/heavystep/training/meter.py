"""Sums over the steps of an epoch, kept where steps are chosen: nothing waits for the device."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from heavystep.optim import StepInfo


class Means(NamedTuple):
    """Of the steps that were taken, and how many were not."""

    loss: float
    step: float
    capped: float
    trials: float
    refused: int


class Meter:
    """Adds up what an optimizer reports: on the device, or on the host for a line search.

    A tensor of a replayed step has to stay in place, so everything is done in place.
    """

    def __init__(self, device: torch.device) -> None:
        self._sums = torch.zeros(6, dtype=torch.float64, device=device)
        """Loss, step, at the cap, trials of the steps taken; steps taken; steps refused."""
        self._streak = torch.zeros(2, dtype=torch.float64, device=device)
        """Steps with a loss that is not finite: in a row up to now, and at most so far."""

    def add(self, info: StepInfo) -> None:
        """Add one step."""
        if isinstance(info.accepted, Tensor):
            self._add_on_device(info)
        else:
            self._add_numbers(info)

    def _add_on_device(self, info: StepInfo) -> None:
        accepted = info.accepted.to(torch.float64)
        # One by one: a tensor of all would have to be copied from the host.
        taken = torch.stack(
            [
                value.to(torch.float64)
                if isinstance(value, Tensor)
                else torch.full_like(accepted, float(value))
                for value in (info.loss, info.step, info.capped, info.trials, 1.0)
            ]
        )
        # A refused step may hold NaN, which no product removes.
        self._sums[:5].add_(torch.where(info.accepted, taken, 0.0))
        self._sums[5].add_(1.0 - accepted)
        self._streak[0].add_(1.0).mul_(torch.isfinite(info.loss).logical_not())
        self._streak[1].copy_(torch.maximum(self._streak[0], self._streak[1]))

    def _add_numbers(self, info: StepInfo) -> None:
        """The same with few calls: the GPU waits meanwhile."""
        taken = [info.loss, info.step, info.capped, info.trials, 1.0, 0.0]
        refused = [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
        self._sums += torch.tensor(taken if info.accepted else refused, dtype=torch.float64)
        now, longest = self._streak.tolist()
        now = 0.0 if math.isfinite(info.loss) else now + 1.0
        self._streak = torch.tensor([now, max(now, longest)], dtype=torch.float64)

    def in_a_streak(self) -> bool:
        """Whether the loss of the last step was not finite; waits for the device."""
        return bool(self._streak[0] > 0.0)

    def longest_streak(self) -> int:
        """Most steps in a row whose loss was not finite; waits for the device."""
        return int(self._streak[1])

    def means(self) -> Means:
        """Of all steps since the last :meth:`clear`; waits for the device."""
        loss, step, capped, trials, taken, refused = self._sums.tolist()
        count = max(taken, 1.0)
        nan = float("nan")
        return Means(
            loss / count if taken else nan,
            step / count if taken else nan,
            capped / count,
            trials / count,
            int(refused),
        )

    def clear(self) -> None:
        """Begin a new epoch; a streak goes on."""
        self._sums.zero_()

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"sums": self._sums.cpu(), "streak": self._streak.cpu()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what :meth:`state_dict` returned."""
        self._sums.copy_(state["sums"])
        self._streak.copy_(state["streak"])
