"""What a store keeps and a runner makes: runs of one method from several seeds."""

import hashlib
import json
from abc import ABC, abstractmethod
from math import ceil
from typing import Any

import numpy as np

from heavystep.sweeps.engines import Job


class Runs(ABC):
    """Runs that are stored in one file; what decides their numbers is in :meth:`content`."""

    seeds: int
    """How many; the seeds are 0, 1, 2, ..."""
    iterations: int
    """Steps of each run."""
    label: str
    """What progress and messages call it. It decides no number."""

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """The full specification, without the label."""

    @abstractmethod
    def metric_names(self) -> tuple[str, ...]:
        """What is recorded."""

    @property
    def together(self) -> int:
        """How many seeds one job can run side by side."""
        return 1

    @abstractmethod
    def job(self, seeds: tuple[int, ...]) -> Job:
        """Runs of some seeds, at most :attr:`together`; it returns their ``Trajectories``."""

    def groups(self, most: int) -> list[tuple[int, ...]]:
        """The seeds of each job: as few jobs as possible, with at most ``most`` seeds each."""
        jobs = ceil(self.seeds / max(1, min(most, self.together)))
        return [tuple(map(int, part)) for part in np.array_split(range(self.seeds), jobs)]

    def text(self) -> str:
        """The full specification as JSON."""
        return json.dumps(self.content(), sort_keys=True)

    def key(self) -> str:
        """The name under which the runs are stored."""
        return hashlib.sha256(self.text().encode()).hexdigest()[:24]

    def size(self) -> str:
        """Say how many runs there are, and how long they are."""
        return f"{self.seeds} runs of {self.iterations:,} steps"
