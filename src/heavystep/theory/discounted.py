"""Discounted sums along a run, from which both decoupling lemmas are made."""

from typing import Any

import numpy as np

from heavystep.arrays import Array


def discounted_sums(beta: float, terms: Array, axis: int) -> Array:
    r"""Sums :math:`u_k = \sum_{m=0}^k \beta^{k-m} t_m`, by :math:`u_k = \beta u_{k-1} + t_k`.

    >>> discounted_sums(0.5, np.array([1.0, 1.0, 4.0]), axis=0)
    array([1.  , 1.5 , 4.75])
    """
    terms = np.moveaxis(np.asarray(terms, dtype=np.float64), axis, 0)
    sums = np.empty_like(terms)
    carried: Any = 0.0
    for k, term in enumerate(terms):
        carried = beta * carried + term
        sums[k] = carried
    return np.moveaxis(sums, 0, axis)
