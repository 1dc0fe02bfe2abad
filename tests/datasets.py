"""The real data sets, for the tests that read them."""

import os
from pathlib import Path

import pytest

from heavystep.data.locate import VARIABLE, present

NEXT_TO_THE_PROJECT = Path(__file__).parents[2] / "shared" / "data"


def require(monkeypatch, *names):
    """The files of these data sets, with the data folder set for the test; skip where one is not."""
    if not os.environ.get(VARIABLE) and NEXT_TO_THE_PROJECT.is_dir():
        monkeypatch.setenv(VARIABLE, str(NEXT_TO_THE_PROJECT))
    found = present(names)
    missing = [name for name in names if name not in found]
    if missing:
        pytest.skip(f"no {', '.join(missing)} here; set {VARIABLE}")
    return found
