"""What a store keeps and a runner makes: runs of one method from several seeds."""

import hashlib
import json
from abc import ABC, abstractmethod
from typing import Any

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

    @abstractmethod
    def job(self, seed: int) -> Job:
        """The run of one seed, which returns its ``Trajectories``."""

    def text(self) -> str:
        """The full specification as JSON."""
        return json.dumps(self.content(), sort_keys=True)

    def key(self) -> str:
        """The name under which the runs are stored."""
        return hashlib.sha256(self.text().encode()).hexdigest()[:24]

    def size(self) -> str:
        """Say how many runs there are, and how long they are."""
        return f"{self.seeds} runs of {self.iterations:,} steps"
