"""The logistic loss as a function of one number."""

import numpy as np

from heavystep.arrays import Array


def softplus(x: Array) -> Array:
    """log(1 + exp(x)), without overflow and exact in both tails.

    >>> softplus(np.array([-40.0, 0.0, 800.0]))
    array([4.24835426e-18, 6.93147181e-01, 8.00000000e+02])
    """
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow and exact in both tails.

    >>> sigmoid(np.array([-40.0, 0.0, 40.0]))
    array([4.24835426e-18, 5.00000000e-01, 1.00000000e+00])
    """
    tail = np.exp(-np.abs(x))
    return np.where(x >= 0.0, 1.0, tail) / (1.0 + tail)


def penalised_minimum(r: Array) -> Array:
    r"""Minimum over x of :math:`\log(1 + e^{-x}) + x^2 / (2r)`, for r >= 0.

    This is the least value of a penalised logistic term, with r = ||a_i||^2 / l2: only the
    part of theta along a_i matters, and x is its margin. The minimiser solves

    .. math:: g(x) = x - r / (1 + e^x) = 0.

    On x >= 0 g increases and is concave, so Newton's method from the left of the root
    approaches it monotonically. The start is left of it: as :math:`1/(1 + e^x) \ge e^{-x}/2`,
    the root is at least the W with :math:`W e^W = z = r/2`; and :math:`W \le \log(1 + z)` gives
    :math:`W = z e^{-W} \ge z/(1 + z)`, while for z >= e :math:`W \le \log z` gives
    :math:`W = \log z - \log W \ge \log z - \log\log z`.

    >>> penalised_minimum(np.array([0.0, 2.0])).round(6)
    array([0.693147, 0.525457])
    """
    z = 0.5 * r
    log_z = np.log(np.maximum(z, np.e))
    x = np.maximum(z / (1.0 + z), np.where(z >= np.e, log_z - np.log(log_z), 0.0))
    # 12 steps are twice what any r between 1e-300 and 1e300 needs.
    for _ in range(12):
        p = sigmoid(-x)
        x = x - (x - r * p) / (1.0 + r * p * (1.0 - p))
    # x^2 / (2r) = x p / 2 at the root, and this form also holds for r = 0.
    return softplus(-x) + 0.5 * x * sigmoid(-x)
