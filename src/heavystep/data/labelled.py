"""Rows with one label each, and labels as -1 and +1."""

from typing import NamedTuple

import numpy as np

from heavystep.arrays import Array
from heavystep.sparse import SparseRows


class Labelled(NamedTuple):
    """A data set.

    Args:
        rows: the features.
        labels: (n,) float64, as they stand in the file.
    """

    rows: SparseRows
    labels: Array


def binary_labels(labels: Array) -> Array:
    """Labels of two kinds as -1.0 and +1.0; the larger value becomes +1.

    Args:
        labels: (n,) exactly two different values.

    Raises:
        ValueError: there are fewer or more than two values.

    >>> binary_labels(np.array([2.0, 1.0, 1.0]))
    array([ 1., -1., -1.])
    """
    kinds = np.unique(labels)
    if len(kinds) != 2:
        shown = ", ".join(f"{kind:g}" for kind in kinds[:5]) + (", ..." if len(kinds) > 5 else "")
        raise ValueError(f"labels must have exactly two values, got {len(kinds)}: {shown or '-'}")
    return np.where(labels == kinds[1], 1.0, -1.0)
