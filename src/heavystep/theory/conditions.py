"""Errors for violated conditions: they name the result, the inequality and the numbers."""

from math import inf, isfinite
from typing import Any

import numpy as np

from heavystep import validation
from heavystep.arrays import Array
from heavystep.validation import Interval


def require(result: str, holds: bool, inequality: str, **numbers: float | None) -> None:
    """Refuse numbers that break a condition: ``Theorem 2 needs c > 1/2, got c = 0.4``."""
    if not holds:
        known = {name: value for name, value in numbers.items() if value is not None}
        got = ", ".join(
            f"{name} = {value if isinstance(value, int) else float(value)!r}"
            for name, value in known.items()
        )
        raise ValueError(f"{result} needs {inequality}, got {got}")


def real(result: str, interval: Interval, **named: Any) -> None:
    """Refuse constants that are not real numbers in ``interval``."""
    for name, value in named.items():
        try:
            validation.real(name, value, interval)
        except (ValueError, TypeError) as error:
            kind = ", a real number" if isinstance(error, TypeError) else ""
            text = f"{result} needs {name} {interval}{kind}, got {name} = {value!r}"
            raise type(error)(text) from None


def finite(result: str, **constants: float) -> None:
    """Refuse constants outside the range of float64, so that no bound is NaN."""
    for name, value in constants.items():
        if not isfinite(value):
            why = "is outside the range of float64 for these constants"
            raise ValueError(f"{result}: {name} = {value} {why}")


def steps(result: str, k: Any, least: int, most: float = inf) -> Array:
    """``k`` as float64, refused unless every entry is a whole number in ``least`` .. ``most``."""
    array = np.asarray(float(k) if type(k) is int else k)  # numpy has no larger integers
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{result} needs k to be a whole number or an array of them, got {k!r}")
    if not array.size:
        raise ValueError(f"{result} needs at least one k, got none")
    counts = array.astype(np.float64)
    whole = np.isfinite(counts) & (counts == np.floor(counts)) & (counts >= least)
    if not whole.all():
        bad = counts[~whole].flat[0]
        raise ValueError(f"{result} needs whole numbers k >= {least}, got k = {bad:g}")
    if counts.max() > most:
        up_to = f"up to k = {most:g}, got {counts.max():g}"
        raise ValueError(f"{result} is summed step by step, {up_to}")
    return counts


def finite_arrays(result: str, *, nonnegative: bool = False, **arrays: Any) -> list[Array]:
    """The arrays as float64. Entries must be finite, and at least 0 where ``nonnegative``."""
    converted = []
    for name, given in arrays.items():
        try:
            values = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(f"{result} needs {name} to hold real numbers, got {given!r}") from None
        fine = np.isfinite(values) & (values >= 0.0 if nonnegative else True)
        if not fine.all():
            wanted = ">= 0 and finite" if nonnegative else "finite"
            bad = float(values[~fine].flat[0])
            raise ValueError(f"{result} needs {name} {wanted}, got {name} = {bad!r}")
        converted.append(values)
    return converted


def like(k: Any, values: Array) -> Any:
    """``values`` as a float if ``k`` is a single number, else as they are."""
    return float(values) if np.ndim(k) == 0 else values
