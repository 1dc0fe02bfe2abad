"""Checks of the samples, for all back ends."""

from typing import Any

import numpy as np

from heavystep.arrays import Array
from heavystep.problems import FiniteSum, SparseLogistic, VarianceReduced


def checked_samples(
    problem: FiniteSum | SparseLogistic | VarianceReduced, samples: Any, ndim: int
) -> Array:
    """Indices of terms as an array. Kernels do not check them.

    Raises:
        ValueError: they are not whole numbers, have another shape, or are out of range.
    """
    array = np.asarray(samples)
    if array.ndim != ndim or not array.size or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"samples must be whole numbers in {ndim} dimensions, got {array.dtype} {array.shape}"
        )
    if array.min() < 0 or array.max() >= problem.n:
        got = f"got {array.min()} .. {array.max()}"
        raise ValueError(f"samples must be in 0 .. {problem.n - 1}, {got}")
    return array
