"""The weak growth condition where it can be solved exactly."""

from typing import NamedTuple

import numpy as np

from heavystep.arrays import Array
from heavystep.validation import POSITIVE, real


class WeakGrowth(NamedTuple):
    """The constants of Assumption 4: E ||grad f||^2 <= rho ||grad F||^2 + delta."""

    rho: float
    delta: float


def smallest_delta(rho: float | None, curvature: Array, pull: Array, noise: float) -> WeakGrowth:
    r"""The pair (rho, delta) with the smallest delta, for a second moment quadratic in grad F.

    Let :math:`v = \nabla F(\theta)` in some orthonormal basis take every value in
    :math:`R^d`, and let

    .. math:: E\|\nabla f(\theta; x)\|^2 = \sum_j (k_j v_j^2 + 2 p_j v_j) + c_0

    with :math:`k_j` = ``curvature``, :math:`p_j` = ``pull``, :math:`c_0` = ``noise``. Then
    :math:`E\|\nabla f\|^2 - \rho\|\nabla F\|^2` is bounded above exactly when, for each j,
    :math:`\rho > k_j`, or :math:`\rho = k_j` and :math:`p_j = 0`. Its maximum, at
    :math:`v_j = p_j / (\rho - k_j)`, is the smallest delta:

    .. math:: \delta(\rho) = c_0 + \sum_{j:\ p_j \ne 0} p_j^2 / (\rho - k_j).

    Args:
        rho: growth constant; at least :math:`\rho_0 = \max_j k_j`, and greater where some
            :math:`p_j` is not 0. None: :math:`\rho_0` if all :math:`p_j` are 0, else
            :math:`2\rho_0`.
        curvature: (d,) :math:`k_j \ge 0`.
        pull: (d,) :math:`p_j`.
        noise: :math:`c_0 \ge 0`.

    Raises:
        ValueError: ``rho`` is too small for any delta.

    >>> smallest_delta(4.0, np.array([1.0, 2.0]), np.array([0.0, 1.0]), noise=0.5)
    WeakGrowth(rho=4.0, delta=1.0)
    >>> smallest_delta(2.0, np.array([1.0, 2.0]), np.array([0.0, 1.0]), noise=0.5)
    Traceback (most recent call last):
    ValueError: rho must be > rho_0 = 2 (weak growth, Assumption 4), got 2.0

    Reference: Zhang, Shi and Gu, Assumption 4 (label wgc).
    """
    rho_0 = float(curvature.max())
    pulled = pull != 0.0
    if rho is None:
        rho = 2.0 * rho_0 if pulled.any() else rho_0
    real("rho", rho, POSITIVE)
    if rho < rho_0 or (pulled.any() and rho == rho_0):
        bound = ">" if pulled.any() else ">="
        raise ValueError(
            f"rho must be {bound} rho_0 = {rho_0:.17g} (weak growth, Assumption 4), got {rho!r}"
        )
    delta = noise + float(np.sum(pull[pulled] ** 2 / (rho - curvature[pulled])))
    return WeakGrowth(float(rho), delta)
