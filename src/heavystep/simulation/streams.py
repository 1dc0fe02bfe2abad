"""One stream of random indices a seed, the same for every back end and number of threads.

Counter based: index k of a stream is a hash of the stream's key and k (SplitMix64), so that any
part of it can be drawn at any time, in a kernel at the cost of a few instructions.
"""

from typing import Any

import numpy as np

from heavystep.arrays import Array
from heavystep.simulation.kernel_cache import kernel

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
S30, S27, S31, S11 = (np.uint64(shift) for shift in (30, 27, 31, 11))
UNIT = 2.0**-53


def stream_key(seed: int) -> np.uint64:
    """The key of a seed's stream, from numpy's ``SeedSequence``: nearby seeds are unrelated."""
    return np.uint64(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])


@kernel
def random_index(key: Any, position: Any, n: Any) -> Any:
    """Entry ``position`` of the stream: uniform on 0 .. n - 1, with a bias below n / 2^53."""
    z = key + np.uint64(position + 1) * GOLDEN
    z = (z ^ (z >> S30)) * FIRST
    z = (z ^ (z >> S27)) * SECOND
    z = z ^ (z >> S31)
    return int(float(z >> S11) * UNIT * n)


@kernel
def _fill(key: Any, first: Any, n: Any, out: Any) -> None:
    for position in range(out.shape[0]):
        out[position] = random_index(key, first + position, n)


def index_stream(seed: int, n: int, count: int, first: int = 0) -> Array:
    """Entries ``first`` .. ``first + count - 1`` of a seed's stream.

    >>> index_stream(3, 512, 4).tolist() == index_stream(3, 512, 2).tolist() + index_stream(
    ...     3, 512, 2, first=2).tolist()
    True
    """
    out = np.empty(count, dtype=np.int64)
    _fill(stream_key(seed), first, n, out)
    return out
