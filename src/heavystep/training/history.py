"""What is recorded of a training run."""

from typing import NamedTuple


class EpochRow(NamedTuple):
    """What is recorded of one epoch. Means are over the steps that were not refused."""

    epoch: int
    """Its number; the first epoch is 1."""
    loss: float
    """The mean cross-entropy of the minibatches, each before the step that was taken on it."""
    test_loss: float
    """The mean cross-entropy of the test images at the end of the epoch."""
    test_accuracy: float
    """The share of test images that are classified correctly at the end of the epoch."""
    step: float
    """The mean step size."""
    capped: float
    """The share of steps at the largest that the cap and the smooth reset allowed."""
    trials: float
    """How many losses the line search evaluates in a step."""
    refused: int
    """How many steps were not taken: loss or gradient was not finite, or the search failed."""
    seconds: float
    """The wall time of the epoch, evaluation included."""


History = list[EpochRow]
"""Epochs in order, from the first one."""
