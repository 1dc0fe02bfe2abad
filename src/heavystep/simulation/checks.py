"""What every back end refuses before it starts."""

from typing import Any

import numpy as np

from heavystep import validation
from heavystep.arrays import Array
from heavystep.problems import FiniteSum, SparseLogistic
from heavystep.schedules import PowerLaw

EPS = float(np.finfo(np.float64).eps)
MAX_TRIALS = 10_000


def check_rule(rule: str, *, c: float, omega: float | None) -> None:
    """Refuse an unknown rule or constants out of its range."""
    if rule not in ("polyak", "armijo") or (rule == "armijo") != (omega is not None):
        raise ValueError(f"rule must be 'polyak', or 'armijo' with omega, got {rule!r}, {omega=}")
    validation.real("c", c, validation.POSITIVE if omega is None else validation.OPEN_UNIT)
    if omega is not None:
        validation.real("omega", omega, validation.OPEN_UNIT)


def check_schedule(name: str, schedule: Any, interval: validation.Interval) -> None:
    """Refuse a number, or a power law that starts with one, outside ``interval``."""
    validation.real(name, getattr(schedule, "initial", schedule), interval)


def schedule_values(schedule: Any, k: Array) -> Array:
    """A number or a power law at the steps ``k``, as float64."""
    values = schedule(k) if isinstance(schedule, PowerLaw) else schedule
    return np.array(np.broadcast_to(np.asarray(values, dtype=np.float64), k.shape))


def checked_samples(problem: FiniteSum | SparseLogistic, samples: Any, ndim: int) -> Array:
    """Indices of terms as an array, refused if they are not: kernels do not look."""
    array = np.asarray(samples)
    if array.ndim != ndim or not array.size or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"samples must be whole numbers in {ndim} dimensions, got {array.dtype} {array.shape}"
        )
    if array.min() < 0 or array.max() >= problem.n:
        got = f"got {array.min()} .. {array.max()}"
        raise ValueError(f"samples must be in 0 .. {problem.n - 1}, {got}")
    return array
