"""Every result of the paper: its statement and conditions, its place in the paper and in code."""

from heavystep.theory.registry.diminishing import THEOREMS_DIMINISHING
from heavystep.theory.registry.lemmas import LEMMAS
from heavystep.theory.registry.result import Reduction, Result, call
from heavystep.theory.registry.theorems import THEOREMS

RESULTS: tuple[Result, ...] = LEMMAS + THEOREMS + THEOREMS_DIMINISHING
"""In the order of the paper's numbers; a result added here is listed, documented and tested."""

__all__ = ["RESULTS", "Reduction", "Result", "call", "find"]


def find(name: str) -> Result:
    """The result with this id or name.

    >>> find("convex").id, find("Theorem 2").name
    ('Theorem 2', 'convex')
    """
    for result in RESULTS:
        if name in (result.id, result.name):
            return result
    names = ", ".join(result.name for result in RESULTS)
    raise ValueError(f"no result {name!r}; there are {names}")
