"""How a violated condition is told: the result, the inequality, the numbers."""

from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heavystep import validation
from heavystep.validation import Interval

Array = NDArray[Any]
RULES = ("polyak", "armijo")


def require(result: str, holds: bool, inequality: str, **numbers: float | None) -> None:
    """Refuse numbers that break a condition of ``result``.

    >>> require("Theorem 2", 0.4 > 0.5, "c > 1/2", c=0.4)
    Traceback (most recent call last):
    ValueError: Theorem 2 needs c > 1/2, got c = 0.4
    """
    if not holds:
        got = ", ".join(
            f"{name} = {value if value is None or isinstance(value, int) else float(value)!r}"
            for name, value in numbers.items()
        )
        raise ValueError(f"{result} needs {inequality}, got {got}")


def real(result: str, interval: Interval, **named: Any) -> None:
    """Refuse a constant that is not a real number in ``interval``.

    >>> real("Theorem 2", validation.POSITIVE, L=float("nan"))
    Traceback (most recent call last):
    ValueError: Theorem 2 needs L > 0 and finite, got L = nan
    """
    for name, value in named.items():
        try:
            validation.real(name, value, interval)
        except ValueError:
            raise ValueError(f"{result} needs {name} {interval}, got {name} = {value!r}") from None
        except TypeError:
            raise TypeError(
                f"{result} needs {name} {interval}, a real number, got {name} = {value!r}"
            ) from None


def rule(result: str, name: str, *, c: Any, omega: Any) -> None:
    """Refuse an unknown rule, or constants that the rule itself does not allow."""
    if name not in RULES:
        raise ValueError(f"rule must be one of 'polyak', 'armijo', got {name!r}")
    if name == "polyak":
        real(result, validation.POSITIVE, c=c)
        return
    real(result, validation.OPEN_UNIT, c=c)
    if omega is None:
        raise ValueError(f"{result} needs omega in (0, 1) for the Armijo rule, got omega = None")
    real(result, validation.OPEN_UNIT, omega=omega)


def steps(result: str, k: Any, least: int) -> Array:
    """``k`` as float64, refused unless every entry is a whole number of at least ``least``."""
    array = np.asarray(k)
    if array.dtype == bool or not np.issubdtype(array.dtype, np.number) or np.iscomplexobj(array):
        raise TypeError(f"{result} needs k to be a whole number or an array of them, got {k!r}")
    counts = array.astype(np.float64)
    whole = np.isfinite(counts) & (counts == np.floor(counts)) & (counts >= least)
    if not whole.all():
        bad = counts[~whole].flat[0]
        raise ValueError(f"{result} needs whole numbers k >= {least}, got k = {bad:g}")
    return counts


def nonnegative(result: str, **arrays: Any) -> None:
    """Refuse an array with an entry that is negative or not finite.

    >>> nonnegative("Lemma 1", gap=[1.0, -2.0])
    Traceback (most recent call last):
    ValueError: Lemma 1 needs gap >= 0 and finite, got gap = -2.0
    """
    for name, array in arrays.items():
        values = np.asarray(array, dtype=np.float64)
        fine = np.isfinite(values) & (values >= 0.0)
        if not fine.all():
            bad = float(values[~fine].flat[0])
            raise ValueError(f"{result} needs {name} >= 0 and finite, got {name} = {bad!r}")


def finite(result: str, **constants: float) -> None:
    """Refuse constants that left the range of float64: no bound is then NaN."""
    for name, value in constants.items():
        if not isfinite(value):
            raise ValueError(
                f"{result}: {name} = {value} is outside the range of float64 for these constants"
            )


def like(k: Any, values: Array) -> Any:
    """``values`` as a float if ``k`` was a single number."""
    return float(values) if np.ndim(k) == 0 else values
