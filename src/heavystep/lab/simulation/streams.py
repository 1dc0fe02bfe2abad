"""Random streams of a seed, the same for every back end and number of threads.

The first gives the indices of samples, the second decides whatever else is random. Counter based:
entry k of a stream is a hash of the stream's key and k (SplitMix64), so that any part of it can be
drawn at any time, in a kernel at the cost of a few instructions.
"""

from typing import Any

import numpy as np

from heavystep.arrays import Array
from heavystep.lab.simulation.compiling import kernel, part

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
S30, S27, S31, S11 = (np.uint64(shift) for shift in (30, 27, 31, 11))
UNIT = 2.0**-53


def stream_key(seed: int) -> np.uint64:
    """The key of a seed's stream, from numpy's ``SeedSequence``: nearby seeds are unrelated."""
    return np.uint64(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])


@part
def _hashed(z: Any) -> Any:
    z = (z ^ (z >> S30)) * FIRST
    z = (z ^ (z >> S27)) * SECOND
    return z ^ (z >> S31)


@part
def random_unit(key: Any, position: Any) -> Any:
    """Entry ``position`` of the stream: uniform on [0, 1), a multiple of 2^-53."""
    z = _hashed(key + np.uint64(position + 1) * GOLDEN)
    return float(z >> S11) * UNIT


@part
def random_index(key: Any, position: Any, n: Any) -> Any:
    """Entry ``position`` of the stream: uniform on 0 .. n - 1, with a bias below n / 2^53."""
    return int(random_unit(key, position) * n)


@part
def second_key(key: Any) -> Any:
    """The key of another stream of the same seed, for decisions that change no sample.

    It is the hash that comes before the first entry, and so is none of the entries.
    """
    return _hashed(key)


def _fill(key: Any, first: Any, out: Any) -> None:
    for position in range(out.shape[0]):
        out[position] = random_unit(key, first + position)


def _fill_seconds(key: Any, first: Any, out: Any) -> None:
    for position in range(out.shape[0]):
        out[position] = random_unit(second_key(key), first + position)


_UNITS, _SECONDS = kernel(_fill), kernel(_fill_seconds)


def index_stream(seed: int, n: int, count: int, first: int = 0) -> Array:
    """Entries ``first`` .. ``first + count - 1`` of a seed's stream.

    >>> index_stream(3, 512, 4).tolist() == index_stream(3, 512, 2).tolist() + index_stream(
    ...     3, 512, 2, first=2).tolist()
    True
    """
    out = np.empty(count)
    _UNITS(stream_key(seed), first, out)
    return (out * n).astype(np.int64)


def unit_stream(seed: int, count: int, first: int = 0) -> Array:
    """Entries ``first`` .. ``first + count - 1`` of a seed's second stream, uniform on [0, 1).

    >>> bool((unit_stream(3, 4)[2:] == unit_stream(3, 2, first=2)).all())
    True
    """
    out = np.empty(count)
    _SECONDS(stream_key(seed), first, out)
    return out
