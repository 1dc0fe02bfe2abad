"""What every back end refuses before it starts."""

from typing import Any

import numpy as np

from heavystep.arrays import Array
from heavystep.problems import FiniteSum, SparseLogistic


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
