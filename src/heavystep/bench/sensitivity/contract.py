"""What is compared: an optimizer that is tried with many values of its main constant."""

from abc import ABC, abstractmethod
from typing import Any

from torch.optim import Optimizer

from heavystep.bench.tasks import Work

COSINE, HORIZON = "+cosine", "+horizon"
"""Endings of names: a linear warm-up and a cosine on the learning rate; the number of steps, told
to a method that takes it as ``total_steps``."""


class Contender(ABC):
    """An optimizer that is tried with many values of its main constant."""

    name: str
    main: str
    """The name of the main constant."""
    cosine: bool = False
    """Whether its learning rate has a schedule."""
    ours: bool = False
    """Whether it is a method of the registry."""
    wants_loss: bool = False
    """Whether ``step(loss=...)`` must be given the loss."""
    captured: bool = True
    """Whether a step can be recorded as CUDA graphs."""
    modes: bool = False
    """Whether the optimizer itself has ``train()`` and ``eval()``."""
    clipped: bool = False
    """Whether the main constant is a largest step that is none by default, and does nothing but
    clip: a run none of whose steps comes near it is the run without it."""

    @property
    @abstractmethod
    def centre(self) -> float:
        """The value in the middle of the grid: the default, where that is a number."""

    @abstractmethod
    def values(self, per_decade: int) -> tuple[float, ...]:
        """Six decades of the main constant."""

    @abstractmethod
    def identity(self, value: float | None, steps: int) -> dict[str, Any]:
        """What decides its steps, for the key of a run.

        Args:
            value: of the main constant; None: the untouched default.
            steps: how many a run has.
        """

    @abstractmethod
    def versions(self) -> dict[str, Any]:
        """Versions of what it is made of, for the key of a run."""

    @abstractmethod
    def optimizer(self, work: Work, value: float | None, steps: int) -> Optimizer:
        """The optimizer of a network; see :meth:`identity`."""

    def left_out(self) -> str:
        """One line that says why it cannot be tried here, or nothing."""
        return ""
