"""What is recorded of a training run."""

from typing import NamedTuple


class EpochRow(NamedTuple):
    """One epoch; means are over the steps of the epoch that were not refused."""

    epoch: int
    """1 for the first one."""
    loss: float
    """Mean cross-entropy of the minibatches, each before the step that was taken on it."""
    test_loss: float
    """Mean cross-entropy of the test images at the end of the epoch."""
    test_accuracy: float
    """Share of the test images that are classified rightly, at the end of the epoch."""
    step: float
    """Mean step size."""
    capped: float
    """Share of steps at the largest that the cap and the smooth reset allowed."""
    trials: float
    """Losses evaluated in the line search, a step."""
    refused: int
    """Steps that were not taken, because loss or gradient was not finite or the search failed."""
    seconds: float
    """Wall time of the epoch, evaluation included."""


History = list[EpochRow]
"""Epochs in order, from the first one."""
