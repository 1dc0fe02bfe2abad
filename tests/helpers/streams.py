"""The random streams of simulated seeds, as literal SplitMix64."""

import numpy as np


def _mixed(z):
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _units(key, first, count):
    position = np.arange(first + 1, first + count + 1, dtype=np.uint64)
    z = _mixed(key + position * np.uint64(0x9E3779B97F4A7C15))
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _key(seed):
    return np.random.SeedSequence(seed).generate_state(1, np.uint64)


def index_stream(seed, n, count, first=0):
    """Entries ``first`` .. ``first + count - 1`` of a seed's stream of samples."""
    return (_units(_key(seed), first, count) * n).astype(np.int64)


def unit_stream(seed, count, first=0):
    """Entries of a seed's second stream."""
    return _units(_mixed(_key(seed)), first, count)
