"""Classes and weights of the rows."""

from typing import Any

import numpy as np
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from heavystep.arrays import Array


def classes_of(y: Array) -> Array:
    """The classes in ``y``, at least two."""
    if (classes := _two_whole_numbers(y)) is not None:
        return classes
    check_classification_targets(y)
    classes = np.unique(y)
    if len(classes) < 2:
        raise ValueError(f"there must be at least 2 classes, got one class: {classes[0]}")
    return classes


def _two_whole_numbers(y: Array) -> Array | None:
    """The classes, if that is what they are: found without sorting."""
    if y.ndim != 1 or not len(y) or y.dtype.kind not in "iuf":
        return None
    classes = np.array([y.min(), y.max()])
    whole = np.isfinite(classes).all() and (classes == np.rint(classes)).all()
    two = classes[0] < classes[1] and bool(((y == classes[0]) | (y == classes[1])).all())
    return classes if whole and two else None


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
        with np.errstate(over="ignore"):
            weights = weights * of_class[np.searchsorted(classes, y)]
    if not 0.0 <= weights.min() <= weights.max() < np.inf:
        raise ValueError(f"class_weight must be >= 0 and finite, got {class_weight!r}")
    if not weights.any():
        raise ValueError("sample_weight must not be 0 for all rows")
    with np.errstate(over="ignore"):  # one line says it, not numpy's warning too
        total = weights.sum()
    if total == np.inf:
        raise ValueError("sample_weight must have a finite sum: divide it by a large number")
    return weights
