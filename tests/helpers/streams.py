"""The random streams of simulated seeds, as literal SplitMix64."""

import numpy as np


def index_stream(seed, n, count, first=0):
    """Entries ``first`` .. ``first + count - 1`` of a seed's stream of samples."""
    position = np.arange(first + 1, first + count + 1, dtype=np.uint64)
    key = np.random.SeedSequence(seed).generate_state(1, np.uint64)
    z = key + position * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return ((z >> np.uint64(11)).astype(np.float64) * 2.0**-53 * n).astype(np.int64)
