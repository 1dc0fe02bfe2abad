"""Curves as JSON that a page can hold: thinned where no screen could show all of it."""

import json
from typing import Any, NamedTuple

import numpy as np

from heavystep.arrays import Array

BINS = 300
"""Of a curve with too many points, each of so many equal parts of the axis keeps its extremes."""
BUDGET = 1_500_000
"""A page with more numbers than this has the median, least and largest of all seeds instead."""
DIGITS = 5
SUMMARY = ("median", "least", "largest")


class Curves(NamedTuple):
    """Values of several seeds on one grid."""

    k: Array
    values: dict[str, Array]
    """(seeds, G) each, by metric."""
    thinned: bool = False


def thinned(k: Array, values: dict[str, Array]) -> Curves:
    """Keep the least and largest value in each of many narrow bins, for every seed.

    Bins are equally wide on a linear axis, and where that is finer on a logarithmic one. Of each
    bin the two ends are kept, with the least and the largest value in the order in which they
    occurred. A curve with few points is left as it is.

    Args:
        k: (G,) increasing.
        values: (seeds, G) each.
    """
    edges = _edges(k)
    if 2 * len(edges) >= len(k):
        return Curves(k, values)
    ends = np.append(edges[1:], len(k))
    places = np.stack([edges, ends - 1], axis=1).reshape(-1)
    kept = {name: _extremes(each, edges, ends) for name, each in values.items()}
    return Curves(k[places], kept, thinned=True)


def _edges(k: Array) -> Array:
    """Where bins begin, linear and logarithmic ones together."""
    wide = np.linspace(k[0], k[-1], BINS, endpoint=False)
    positive = max(float(k[0]), 1.0)
    narrow = np.geomspace(positive, max(float(k[-1]), positive), BINS, endpoint=False)
    return np.unique(np.searchsorted(k, np.concatenate([wide, narrow])).clip(0, len(k) - 1))


def _extremes(values: Array, edges: Array, ends: Array) -> Array:
    """(seeds, 2 * bins): of each bin the least and the largest, the earlier one first."""
    found = np.full((len(values), 2 * len(edges)), np.nan)
    for seed, row in enumerate(values):
        for number, (first, end) in enumerate(zip(edges, ends, strict=True)):
            part = row[first:end]
            finite = np.flatnonzero(np.isfinite(part))
            if len(finite):
                low = finite[np.argmin(part[finite])]
                high = finite[np.argmax(part[finite])]
                earlier, later = sorted((low, high))
                found[seed, 2 * number : 2 * number + 2] = part[earlier], part[later]
    return found


def summarised(values: dict[str, Array]) -> dict[str, Array]:
    """The median, least and largest over seeds in place of the seeds; NaN where all are."""
    return {name: np.stack(_summary(each)) for name, each in values.items()}


def _summary(values: Array) -> list[Array]:
    known = ~np.isnan(values).all(axis=0)
    functions: tuple[Any, ...] = (np.nanmedian, np.nanmin, np.nanmax)
    found = [np.full(values.shape[1], np.nan) for _ in functions]
    for row, function in zip(found, functions, strict=True):
        row[known] = function(values[:, known], axis=0)
    return found


def as_json(value: Any) -> str:
    r"""JSON that may stand in a page: no tag can begin in it, and arrays have few digits.

    >>> as_json({"a": np.array([1 / 3, np.nan, np.inf]), "b": "</script>"})
    '{"a":[0.33333,null,null],"b":"\\u003c/script>"}'
    """
    if isinstance(value, np.ndarray):
        if value.ndim > 1:
            return "[" + ",".join(map(as_json, value)) + "]"
        text = ",".join([f"%.{DIGITS}g"] * len(value)) % tuple(value.tolist())
        for word in ("-inf", "inf", "nan"):
            text = text.replace(word, "null")
        return f"[{text}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{as_json(str(k))}:{as_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(as_json, value)) + "]"
    return json.dumps(value).replace("<", "\\u003c")
