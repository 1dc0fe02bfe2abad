"""The search for the index from which on a condition holds."""

from collections.abc import Callable

LARGEST = 10**300
"""Larger indices come near the end of the range of float64."""


def smallest_index(holds: Callable[[int], bool], what: str) -> int:
    """The smallest K >= -1 with ``holds(K)``, which must then hold for every larger K too.

    >>> smallest_index(lambda K: K >= 41, "Theorem 6")
    41
    """
    fails, found = -2, -1
    while not holds(found):
        fails, found = found, 2 * found + 3
        if found > LARGEST:
            raise ValueError(f"{what} holds from no K below 10^300 on, for these schedules")
    while found - fails > 1:
        middle = (fails + found) // 2
        fails, found = (fails, middle) if holds(middle) else (middle, found)
    return found
