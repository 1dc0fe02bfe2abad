"""A claim of the paper about a figure, with what was measured."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Claim:
    """One claim, with what was measured."""

    id: str
    text: str
    holds: bool
    measured: dict[str, float]
    judged: bool = True
    """False where the runs are so small that it need not hold."""

    def as_json(self) -> dict[str, Any]:
        """For ``claims.json``."""
        return {
            "id": self.id,
            "text": self.text,
            "holds": self.holds,
            "measured": {
                name: float(f"{value:.6g}") if np.isfinite(value) else str(value)
                for name, value in self.measured.items()
            },
        }
