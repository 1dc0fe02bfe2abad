"""Means over seeds with their confidence intervals."""

import math

import numpy as np
from scipy.special import stdtrit

from heavystep.arrays import Array

CONFIDENCE = 0.95


def mean_and_half_width(values: Array) -> tuple[Array, Array]:
    r"""The mean over seeds, and half the width of its 95% confidence interval.

    .. math:: \bar v \pm t_{0.975,\,S-1}\, s / \sqrt S

    with S seeds, their standard deviation s and the quantile t of Student's distribution.

    Args:
        values: (seeds, ...).

    Returns:
        Two arrays (...). The half-width of one seed alone is NaN.

    >>> mean, half_width = mean_and_half_width(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    >>> float(mean), round(float(half_width), 6)
    (3.0, 1.963243)
    """
    seeds = len(values)
    if seeds == 1:
        return values[0], np.full_like(values[0], np.nan)
    quantile = float(stdtrit(seeds - 1, 0.5 + CONFIDENCE / 2.0))
    error = values.std(axis=0, ddof=1) / math.sqrt(seeds)
    return values.mean(axis=0), quantile * error
