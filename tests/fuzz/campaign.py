"""What a campaign is: something to try again and again, each time with other random numbers."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

Trial = Callable[[np.random.Generator, Path], None]
"""Raises what went wrong. It may use the folder as it likes."""


class Campaign(NamedTuple):
    """One promise, and how often it is tried."""

    name: str
    trial: Trial
    tries: int


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """A file with something wrong: bits, a piece that is missing, zeros, or more than there was."""
    whole = bytearray(content)
    kind, at = rng.integers(6), int(rng.integers(len(whole)))
    if kind <= 1:
        whole[at] ^= 1 << int(rng.integers(8))
    elif kind == 2:
        for place in rng.integers(len(whole), size=int(rng.integers(2, 20))):
            whole[place] ^= int(rng.integers(1, 256))
    elif kind == 3:
        del whole[at:]
    elif kind == 4:
        del whole[at : at + int(rng.integers(1, 50))]
    else:
        whole[at : at + 64] = rng.bytes(int(rng.integers(1, 100)))
    return bytes(whole)
