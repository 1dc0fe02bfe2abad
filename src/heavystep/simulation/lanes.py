"""Seeds side by side: which arrays have an entry for each seed, in Python and inside kernels.

A step of one seed is a chain of operations that wait for each other. A kernel that takes the same
step of several seeds in turns has always something to do. Every seed goes through the same compiled
functions as it would alone, so that its numbers are the same to the bit.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from heavystep.arrays import Array
from heavystep.simulation.terms import NoWork, function_of, implement

CACHE_LINE = 64
"""Bytes; vectors that begin within a line are loaded and stored in two parts."""
_LANES: dict[type, dict[str, int]] = {}
"""Of each kind, the fields that have an entry for each seed, and along which axis."""


def lane_of(parts: Any, lane: Any) -> Any:
    """The parts of one seed, in a kernel."""
    raise NotImplementedError


def has_lanes(
    kind: type, *arrays: str, columns: tuple[str, ...] = (), nested: tuple[str, ...] = ()
) -> None:
    """Say which fields of a ``NamedTuple`` have an entry for each seed; seeds share the others.

    Args:
        kind: the ``NamedTuple``.
        arrays: arrays with seeds along their first axis.
        columns: arrays (numbers of a seed, seeds), so that those of four seeds are neighbours.
        nested: named tuples that have such fields themselves.
    """
    _LANES[kind] = dict.fromkeys(arrays, 0) | dict.fromkeys(columns, -1)
    entries = dict.fromkeys(arrays, "parts.{}[lane]") | dict.fromkeys(columns, "parts.{}[:, lane]")
    entries |= dict.fromkeys(nested, "lane_of(parts.{}, lane)")
    names = kind._fields  # type: ignore[attr-defined]
    values = [entries.get(name, "parts.{}").format(name) for name in names]
    source = f"def read(parts, lane): return kind({', '.join(values)})"
    implement(kind, {lane_of: function_of(source, "read", kind=kind, lane_of=lane_of)})


def side_by_side(parts: Sequence[Any]) -> Any:
    """Named tuples of single seeds as one of them all; one seed keeps its arrays."""
    first = parts[0]
    axes = _LANES[type(first)].items()
    if len(parts) == 1:
        alone = {name: np.expand_dims(getattr(first, name), axis) for name, axis in axes}
        return first._replace(**alone)
    arrays = {
        name: aligned(np.stack([getattr(part, name) for part in parts], axis))
        for name, axis in axes
    }
    return first._replace(**arrays)


def one_of(parts: Any, lane: int) -> Any:
    """The named tuple of one seed, which looks at the arrays of them all."""
    axes = _LANES[type(parts)].items()
    return parts._replace(
        **{name: np.moveaxis(getattr(parts, name), axis, 0)[lane] for name, axis in axes}
    )


def aligned(array: Array) -> Array:
    """A copy that begins with a cache line.

    >>> aligned(np.arange(3.0)).ctypes.data % CACHE_LINE
    0
    """
    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def aligned_empty(shape: tuple[int, ...], dtype: Any) -> Array:
    """An array that begins with a cache line, with any numbers."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    raw = np.empty(size + CACHE_LINE, dtype=np.uint8)
    first = -raw.ctypes.data % CACHE_LINE
    array: Array = raw[first : first + size].view(dtype).reshape(shape)
    return array


has_lanes(NoWork)
