"""Lemma 7: the almost-supermartingale lemma of Robbins and Siegmund, with its finite sums."""

from typing import NamedTuple

import numpy as np

from heavystep.arrays import Array
from heavystep.theory import conditions


class AlmostSupermartingale(NamedTuple):
    """The two sequences in the finite form of the lemma."""

    growth: Array
    """:math:`P_{j+1} = \\prod_{i \\le j} (1 + \\alpha_i)`; inf beyond the range of float64."""
    budget: Array
    r""":math:`V_0 + \sum_{i \le j} Z_i / P_{i+1}`, the right side of the inequality."""


def almost_supermartingale(V0: float, alpha: Array, Z: Array) -> AlmostSupermartingale:
    r"""Finite form of the lemma that carries Theorems 6 and 7 (Lemma 7).

    If :math:`E[V_{j+1}\mid\mathcal F_j] + U_j \le (1+\alpha_j)V_j + Z_j` for nonnegative
    :math:`V, U` and deterministic :math:`Z`, dividing by :math:`P_{j+1}` and summing gives for
    every j

    .. math:: \frac{E V_{j+1}}{P_{j+1}} + \sum_{i=0}^{j}\frac{E U_i}{P_{i+1}}
              \le V_0 + \sum_{i=0}^{j}\frac{Z_i}{P_{i+1}}

    If both series converge, :math:`V_j` converges and :math:`\sum_j U_j < \infty` almost surely.

    Args:
        V0: value at the start, >= 0.
        alpha: (K,) nonnegative.
        Z: (K,) nonnegative.

    >>> almost_supermartingale(1.0, np.array([1.0, 0.0]), np.array([2.0, 2.0]))
    AlmostSupermartingale(growth=array([2., 2.]), budget=array([2., 3.]))

    Reference: Zhang, Shi and Gu, Lemma 7 (label dec_robbins_siegmund), Appendix C.
    """
    start, alpha, Z = conditions.finite_arrays("Lemma 7", nonnegative=True, V0=V0, alpha=alpha, Z=Z)
    with np.errstate(over="ignore"):
        growth = np.exp(np.cumsum(np.log1p(alpha)))
    return AlmostSupermartingale(growth, start + np.cumsum(Z / growth))
