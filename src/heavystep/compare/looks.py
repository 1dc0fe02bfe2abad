"""Which methods a picture shows in colour, and how their names are kept apart."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from heavystep.arrays import Array
from heavystep.compare.outcome import Outcome
from heavystep.compare.table import rows_of
from heavystep.methods import method_of
from heavystep.methods.named import read

PAPER_COLOURS = ("#D55E00", "#0072B2", "#8C2D04", "#5E4FA2")
"""Of the two methods, and of other rules of theirs."""
OTHER_COLOURS = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8F6B32")
"""Okabe and Ito, distinct for the colour-blind."""
GREY = "#a8a8a8"
BEST = 3
"""How many rivals are in colour, by final loss and by sensitivity."""


class Look(NamedTuple):
    """How a method in colour is drawn; later lines are thinner, so that all show on each other."""

    colour: str
    width: float
    zorder: float


def looks_of(outcome: Outcome) -> dict[str, Look]:
    """Those of the paper's methods, and of the rivals that end lowest or depend least.

    The paper's are those that have one of its rules, or have it with another ``scaling``.
    """
    known = {name: method_of(read(name)[0]) for name in outcome.scores}
    paper = [name for name, each in known.items() if each.by_scaling]
    rivals = [row.method for row in rows_of(outcome) if row.method not in paper]
    steady = sorted(rivals, key=lambda name: outcome.scores[name])
    best = (*rivals[:BEST], *steady[:BEST])
    colours = {
        **dict(zip(paper, PAPER_COLOURS, strict=False)),
        **dict(zip(dict.fromkeys(best), OTHER_COLOURS, strict=False)),
    }
    return {
        name: Look(colour, max(2.8 - 0.6 * place, 1.3), 4.0 + 0.1 * place)
        for place, (name, colour) in enumerate(colours.items())
    }


def spread(places: Sequence[float], gap: float, low: float, high: float) -> Array:
    """Places as near as possible to those given, in their order, at least ``gap`` apart.

    Least squares by pooling neighbours that would overlap, then pushed into [low, high].

    Args:
        places: ascending.
        gap: between neighbours; less where there is no room.
        low: least place.
        high: largest place.

    >>> spread([0.0, 0.1, 5.0], 1.0, 0.0, 10.0).tolist()
    [0.0, 1.0, 5.0]
    """
    count = len(places)
    gap = min(gap, (high - low) / max(count - 1, 1))
    offsets = gap * np.arange(count)
    # Without the offsets the places need only ascend, which pooling adjacent violators achieves.
    pools: list[tuple[float, int]] = []
    for value in np.asarray(places) - offsets:
        mean, size = float(value), 1
        while pools and pools[-1][0] > mean:
            before, members = pools.pop()
            mean = (before * members + mean * size) / (members + size)
            size += members
        pools.append((mean, size))
    levels = np.repeat([mean for mean, _ in pools], [size for _, size in pools])
    found: Array = np.clip(levels, low, high - gap * (count - 1)) + offsets
    return found
