"""What rounding may do to a recorded run: the tolerances of all checks.

A computed loss or gradient is the exact one at another point, a few eps away, up to rounding of
the result itself. Its error follows from smoothness: moving the point by e changes a loss by at
most ||g|| e + L e^2 / 2 and a gradient by at most L e. Near a minimiser that is far more than eps
times the loss.
"""

from dataclasses import dataclass

import numpy as np

from heavystep.arrays import Array
from heavystep.problems import FiniteSum
from heavystep.records import Record

ROUNDINGS = 64.0
"""How many roundings a recorded number may carry, in units of eps of its size."""
TINY = float(np.finfo(np.float64).tiny)
"""Numbers below this lose digits, and no relative statement about them holds."""


@dataclass(frozen=True)
class Rounding:
    """Errors of a recorded run."""

    unit: float
    """Relative error of a single number."""
    point: Array
    """(R, K + 1) error of the points at which losses and gradients were taken."""
    loss: Array
    """(R, K) error of the recorded losses and of their infima."""

    @classmethod
    def of(cls, record: Record, problem: FiniteSum | None, L: float | None) -> "Rounding":
        """The errors of a run; without iterates only those of the losses are known."""
        unit = ROUNDINGS * record.eps
        point = np.zeros((record.runs, record.steps + 1))
        if record.iterates is not None:
            # Where the optimum is not known, the start shows how large the problem's data are.
            centre = record.iterates[:, :1] if problem is None else problem.theta_star
            size = np.linalg.norm(record.iterates, axis=-1) + np.linalg.norm(centre, axis=-1)
            point = unit * size
        low = np.where(np.isfinite(record.f_star), record.f_star, 0.0)
        moved = np.sqrt(record.grad_sqnorm) * point[:, :-1] + (L or 0.0) / 2 * point[:, :-1] ** 2
        smallest = ROUNDINGS * record.tiny
        return cls(unit, point, unit * (abs(record.loss) + abs(low)) + moved + smallest)
