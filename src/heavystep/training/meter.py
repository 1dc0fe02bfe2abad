"""Sums over the steps of an epoch. They are kept where steps are chosen, so that nothing waits."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from heavystep.optim import StepInfo

TAKEN, REFUSED = slice(0, 5), 5
"""Places in the sums: of the steps that were taken loss, step, share at the cap, trials and number;
then the number of steps that were refused."""
NOW, LONGEST = 0, 1
"""Places in the streak of steps in a row whose loss was not finite: up to now, and the longest."""


class Means(NamedTuple):
    """Means over the steps that were taken, and how many were refused."""

    loss: float
    step: float
    capped: float
    trials: float
    refused: int


class Meter:
    """Adds up what an optimizer reports, on the device, or on the host for a line search.

    On the device everything is done in place, because a replayed step writes to the same memory.
    """

    def __init__(self, device: torch.device) -> None:
        self._sums = torch.zeros(6, dtype=torch.float64, device=device)
        self._streak = torch.zeros(2, dtype=torch.float64, device=device)

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
        self._sums[TAKEN].add_(torch.where(info.accepted, taken, 0.0))
        self._sums[REFUSED].add_(1.0 - accepted)
        self._streak[NOW].add_(1.0).mul_(torch.isfinite(info.loss).logical_not())
        self._streak[LONGEST].copy_(torch.maximum(self._streak[NOW], self._streak[LONGEST]))

    def _add_numbers(self, info: StepInfo) -> None:
        """Do the same with few calls, because the GPU waits meanwhile."""
        taken = [info.loss, info.step, info.capped, info.trials, 1.0, 0.0]
        refused = [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
        self._sums += torch.tensor(taken if info.accepted else refused, dtype=torch.float64)
        now, longest = self._streak.tolist()
        now = 0.0 if math.isfinite(info.loss) else now + 1.0
        self._streak = torch.tensor([now, max(now, longest)], dtype=torch.float64)

    def in_a_streak(self) -> bool:
        """Whether the loss of the last step was not finite. This waits for the device."""
        return bool(self._streak[NOW] > 0.0)

    def longest_streak(self) -> int:
        """The most steps in a row whose loss was not finite. This waits for the device."""
        return int(self._streak[LONGEST])

    def means(self) -> Means:
        """The means over all steps since the last :meth:`clear`. This waits for the device."""
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
        """The sums and the streak, for a checkpoint."""
        return {"sums": self._sums.cpu(), "streak": self._streak.cpu()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what :meth:`state_dict` returned."""
        self._sums.copy_(state["sums"])
        self._streak.copy_(state["streak"])
