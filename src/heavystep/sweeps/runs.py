"""What a store keeps and a runner makes: runs of one method from several seeds."""

import hashlib
import json
from abc import ABC, abstractmethod
from math import ceil
from typing import Any

import numpy as np

from heavystep.sweeps.engines import Job

AT_ONCE = 4
"""Seeds that a kernel can take together, in the lanes of a vector."""


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
        """The seeds of each job: as few jobs as possible, with at most ``most`` seeds each.

        Jobs of several seeds have whole fours of them, if there are as many, and the last the rest.
        """
        most = min(most, self.together)
        unit = AT_ONCE if most >= AT_ONCE else 1
        units = range(0, self.seeds, unit)
        jobs = ceil(len(units) / max(1, most // unit))
        parts = np.array_split(units, jobs)
        return [tuple(range(part[0], min(part[-1] + unit, self.seeds))) for part in parts]

    def text(self) -> str:
        """The full specification as JSON."""
        return json.dumps(self.content(), sort_keys=True)

    def key(self) -> str:
        """The name under which the runs are stored."""
        return hashlib.sha256(self.text().encode()).hexdigest()[:24]

    def size(self) -> str:
        """Say how many runs there are, and how long they are."""
        return f"{self.seeds} runs of {self.iterations:,} steps"
