"""Random streams of a seed, the same for every back end and number of threads.

The first gives the indices of samples, the second decides whatever else is random.

Counter based: index k of a stream is a hash of the stream's key and k (SplitMix64), so that any
part of it can be drawn at any time, in a kernel at the cost of a few instructions.
"""

from typing import Any

import numpy as np

from heavystep.arrays import Array
from heavystep.simulation.kernel_cache import inner_kernel

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
S30, S27, S31, S11 = (np.uint64(shift) for shift in (30, 27, 31, 11))
UNIT = 2.0**-53


def stream_key(seed: int) -> np.uint64:
    """The key of a seed's stream, from numpy's ``SeedSequence``: nearby seeds are unrelated."""
    return np.uint64(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])


@inner_kernel
def _hashed(z: Any) -> Any:
    z = (z ^ (z >> S30)) * FIRST
    z = (z ^ (z >> S27)) * SECOND
    return z ^ (z >> S31)


@inner_kernel
def random_unit(key: Any, position: Any) -> Any:
    """Entry ``position`` of the stream: uniform on [0, 1), a multiple of 2^-53."""
    z = _hashed(key + np.uint64(position + 1) * GOLDEN)
    return float(z >> S11) * UNIT


@inner_kernel
def random_index(key: Any, position: Any, n: Any) -> Any:
    """Entry ``position`` of the stream: uniform on 0 .. n - 1, with a bias below n / 2^53."""
    return int(random_unit(key, position) * n)


@inner_kernel
def second_key(key: Any) -> Any:
    """The key of another stream of the same seed, for decisions that change no sample.

    It is the hash that comes before the first entry, and so is none of the entries.
    """
    return _hashed(key)


@inner_kernel
def _fill(key: Any, first: Any, n: Any, out: Any) -> None:
    for position in range(out.shape[0]):
        out[position] = random_index(key, first + position, n)


@inner_kernel
def _fill_units(key: Any, first: Any, out: Any) -> None:
    for position in range(out.shape[0]):
        out[position] = random_unit(second_key(key), first + position)


def index_stream(seed: int, n: int, count: int, first: int = 0) -> Array:
    """Entries ``first`` .. ``first + count - 1`` of a seed's stream.

    >>> index_stream(3, 512, 4).tolist() == index_stream(3, 512, 2).tolist() + index_stream(
    ...     3, 512, 2, first=2).tolist()
    True
    """
    out = np.empty(count, dtype=np.int64)
    _fill(stream_key(seed), first, n, out)
    return out


def unit_stream(seed: int, count: int, first: int = 0) -> Array:
    """Entries ``first`` .. ``first + count - 1`` of a seed's second stream, uniform on [0, 1).

    >>> bool((unit_stream(3, 4)[2:] == unit_stream(3, 2, first=2)).all())
    True
    """
    out = np.empty(count)
    _fill_units(stream_key(seed), first, out)
    return out
