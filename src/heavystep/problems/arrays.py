"""The data of a problem: checked, and stored as read-only arrays."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from heavystep.arrays import Array


def frozen(array: Array) -> Array:
    """The array itself, made read-only so that constants computed from it stay true."""
    array.flags.writeable = False
    return array


def finite_array(name: str, value: Any, ndim: int, *, empty: bool = False) -> Array:
    """A read-only float64 copy of ``value``.

    Numbers that are not finite, another dimension and, unless ``empty`` allows it, an empty array
    are refused.

    >>> finite_array("b", [1, 2], ndim=1)
    array([1., 2.])
    >>> finite_array("b", [1.0, float("nan")], ndim=1)
    Traceback (most recent call last):
    ValueError: b must be finite, got nan at index (1,)
    """
    try:
        if np.iscomplexobj(value):
            raise TypeError
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a dense array of real numbers, got {value!r}") from None
    if array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s), got shape {array.shape}")
    if array.size == 0 and not empty:
        raise ValueError(f"{name} must not be empty, got shape {array.shape}")
    if not np.isfinite(array).all():
        index = tuple(int(k) for k in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite, got {array[index]} at index {index}")
    return frozen(array)


def shaped(name: str, array: Array, shape: tuple[int, ...], why: str) -> None:
    """Refuse an array of another shape; ``why`` names what the shape must match."""
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape} to match {why}, got {array.shape}")


def start(theta0: ArrayLike | None, default: Array, why: str) -> Array:
    """Where runs start: ``theta0``, or ``default`` if that is None.

    ``why`` names what the shape must match.
    """
    if theta0 is None:
        return frozen(default)
    array = finite_array("theta0", theta0, ndim=1)
    shaped("theta0", array, default.shape, why)
    return array
