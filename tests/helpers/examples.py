"""How many examples a property is tried on."""

import os

from hypothesis import settings


def examples(count):
    """Settings of a property test; ``HEAVYSTEP_EXAMPLES=20`` looks twenty times harder."""
    factor = float(os.environ.get("HEAVYSTEP_EXAMPLES", "1"))
    return settings(max_examples=max(1, int(factor * count)), deadline=None)
