"""From scores to probabilities, of two classes or of each class against the rest."""

import numpy as np
from scipy.special import expit, log_expit, logsumexp

from heavystep.arrays import Array


def probabilities(scores: Array) -> Array:
    """(n, classes) probabilities; with more than two classes each one's, divided by their sum.

    Args:
        scores: (n,) of the second of two classes, or (n, classes).

    >>> probabilities(np.array([0.0])).tolist()
    [[0.5, 0.5]]
    """
    if scores.ndim == 1:
        return np.column_stack([expit(-scores), expit(scores)])
    each = expit(scores)
    total = each.sum(axis=1, keepdims=True)
    uniform = np.full_like(each, 1.0 / each.shape[1])
    shares: Array = np.divide(each, total, out=uniform, where=total > 0.0)
    return shares


def log_probabilities(scores: Array) -> Array:
    """Their logarithms, which are finite where probabilities vanish."""
    if scores.ndim == 1:
        return np.column_stack([log_expit(-scores), log_expit(scores)])
    each = log_expit(scores)
    logarithms: Array = each - logsumexp(each, axis=1, keepdims=True)
    return logarithms
