"""Writes epochs to logs for TensorBoard."""

from pathlib import Path
from typing import Any

from heavystep.training.history import EpochRow

SHOWN = {
    "loss": "loss/train",
    "test_loss": "loss/test",
    "test_accuracy": "accuracy/test",
    "step": "step/size",
    "capped": "step/at_cap",
    "trials": "step/trials",
    "refused": "step/refused",
    "seconds": "time/seconds_per_epoch",
}


class Log:
    """The log of one run.

    Args:
        folder: the folder of all logs; None: nothing is written.
        run: the name of the log.
    """

    def __init__(self, folder: Path | None, run: str) -> None:
        self._writer: Any = None
        if folder is not None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(folder / run))

    def add(self, row: EpochRow) -> None:
        """Write an epoch."""
        if self._writer is not None:
            for name, tag in SHOWN.items():
                self._writer.add_scalar(tag, getattr(row, name), row.epoch)

    def close(self) -> None:
        """Write what is not yet on disk."""
        if self._writer is not None:
            self._writer.close()
