"""The random streams of simulated seeds, drawn by the kernels' own functions."""

import numpy as np

from heavystep.lab.simulation.compiling import kernel
from heavystep.lab.simulation.problems import random_index, random_unit, second_key, stream_key


@kernel
def _indices(key, first, n, out):
    for place in range(len(out)):
        out[place] = random_index(key, first + place, n)


@kernel
def _units(key, first, out):
    for place in range(len(out)):
        out[place] = random_unit(second_key(key), first + place)


def index_stream(seed, n, count, first=0):
    """Entries ``first`` .. ``first + count - 1`` of a seed's stream of samples."""
    out = np.empty(count, dtype=np.int64)
    _indices(stream_key(seed), first, n, out)
    return out


def unit_stream(seed, count, first=0):
    """Entries of a seed's second stream."""
    out = np.empty(count)
    _units(stream_key(seed), first, out)
    return out
