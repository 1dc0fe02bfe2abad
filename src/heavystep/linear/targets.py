"""Classes and weights of the rows."""

from typing import Any

import numpy as np
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from heavystep.arrays import Array


def classes_of(y: Array) -> Array:
    """The classes in ``y``, at least two."""
    check_classification_targets(y)
    classes: Array = np.unique(y)
    if len(classes) < 2:
        raise ValueError(f"there must be at least 2 classes, got one class: {classes[0]}")
    return classes


def announced_classes(y: Array, classes: Any, known: Array | None) -> Array:
    """All classes that there will be: the first call names them, later calls may repeat them.

    Args:
        y: (n,) classes of some rows.
        classes: the classes that the caller names, or None.
        known: the classes that the first call named; None in the first call.
    """
    check_classification_targets(y)
    if known is None:
        if classes is None:
            raise ValueError("classes must be given at the first call of partial_fit")
        known = classes_of(np.asarray(classes))
    elif classes is not None and not np.array_equal(known, np.unique(classes)):
        raise ValueError(f"classes must stay {known}, got {classes!r}")
    unknown = np.setdiff1d(y, known)
    if len(unknown):
        raise ValueError(f"y holds classes that were not announced: {unknown}")
    return known


def row_weights(
    X: Any,  # noqa: N803
    y: Array,
    sample_weight: Any,
    class_weight: Any,
    classes: Array,
) -> Array:
    """(n,) sample weights times class weights."""
    weights: Array = _check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True
    )
    if class_weight is not None:
        # To balance is to make the total weights of classes equal, sample weights included.
        counted = {} if isinstance(class_weight, dict) else {"sample_weight": weights}
        of_class = compute_class_weight(class_weight, classes=classes, y=y, **counted)
        weights = weights * of_class[np.searchsorted(classes, y)]
    if not weights.any():
        raise ValueError("sample_weight must not be 0 for all rows")
    return weights
