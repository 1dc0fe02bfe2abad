"""A claim of the paper about a figure, with what was measured."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Claim:
    """One claim, whether it holds, and the numbers that decide it."""

    id: str
    text: str
    holds: bool
    measured: dict[str, float]
    judged: bool = True
    """Whether it has to hold; it need not where the runs are too small for it."""

    def as_json(self) -> dict[str, Any]:
        """The claim as an entry of ``claims.json``."""
        return {
            "id": self.id,
            "text": self.text,
            "holds": self.holds,
            "measured": {
                name: float(f"{value:.6g}") if np.isfinite(value) else str(value)
                for name, value in self.measured.items()
            },
        }
