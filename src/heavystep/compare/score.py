r"""How much the final loss depends on a constant, in one number.

.. math:: \frac1m \sum_{j=1}^m \big( \min\{\ell_0, \ell(c_j)\} - \ell^\star \big)

over the m constants :math:`c_j` of the grid, with :math:`\ell_0` the loss at the start,
:math:`\ell(c_j)` the final loss and :math:`\ell^\star` the least final loss of all methods and
constants on the problem. It is 0 for a method that is the best whatever its constant, and
:math:`\ell_0 - \ell^\star` for one that never gets anywhere.
"""

from collections.abc import Mapping

import numpy as np

from heavystep.arrays import Array


def counted(final: Array, start: Array) -> Array:
    """min{l_0, l}: a run that diverged or was refused, with no finite loss, counts as l_0.

    Args:
        final: (..., seeds) final losses.
        start: (seeds,) losses at the start.

    >>> counted(np.array([0.5, 9.0, np.nan]), np.array([1.0, 1.0, 1.0])).tolist()
    [0.5, 1.0, 1.0]
    """
    losses: Array = np.minimum(np.where(np.isfinite(final), final, np.inf), start)
    return losses


def over_seeds(final: Mapping[str, Array], start: Array) -> dict[str, Array]:
    """(constants,) means over seeds of :func:`counted`, by method.

    Args:
        final: (constants, seeds) final losses, by method.
        start: (seeds,) losses at the start.
    """
    return {method: counted(losses, start).mean(axis=-1) for method, losses in final.items()}


def least(means: Mapping[str, Array]) -> float:
    """l*, the least of what :func:`over_seeds` returned."""
    return float(min(losses.min() for losses in means.values()))


def sensitivity(means: Mapping[str, Array]) -> dict[str, float]:
    """The score of each method.

    Args:
        means: what :func:`over_seeds` returned.

    >>> sensitivity({"a": np.array([0.75, 0.25, 0.5]), "b": np.array([1.0, 1.0, 0.25])})
    {'a': 0.25, 'b': 0.5}
    """
    best = least(means)
    return {method: float(np.mean(losses - best)) for method, losses in means.items()}
