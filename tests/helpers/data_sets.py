"""Data folders for tests: the real one, and small data sets under published names."""

import hashlib
import os
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from heavystep.lab import data
from heavystep.lab.data import CIFAR, LIBSVM, SETS, VARIABLE
from tests.helpers.places import ROOT

NEXT_TO_THE_PROJECT = ROOT.parent / "shared" / "data"


def require(monkeypatch, *names):
    """The files of these data sets, with the data folder set for the test; skip where one is not."""
    if not os.environ.get(VARIABLE) and NEXT_TO_THE_PROJECT.is_dir():
        monkeypatch.setenv(VARIABLE, str(NEXT_TO_THE_PROJECT))
    found = data.present(names)
    missing = [name for name in names if name not in found]
    if missing:
        pytest.skip(f"no {', '.join(missing)} here; set {VARIABLE}")
    return found


def file_of(place, content):
    """What the catalogue would know of a file."""
    return {place: hashlib.sha256(content).hexdigest()}


@contextmanager
def changed(**entries):
    """A catalogue in which these data sets are others; what a test adds goes again."""
    with ExitStack() as stack:
        for catalogue, kind in ((SETS, "name"), (LIBSVM, "positives"), (CIFAR, "classes")):
            known = {name: entry for name, entry in entries.items() if getattr(entry, kind)}
            stack.enter_context(patch.dict(catalogue, known))
        yield


def tiny_cifar(name, seed=0):
    """An entry with a few images a file, and the content of its files by their places."""
    entry, label_bytes = CIFAR[name], 1 if name == "cifar10" else 2
    contents = {}
    for at, place in enumerate(entry.files):
        rng = np.random.default_rng([seed, at])
        records = rng.integers(0, 256, (2 + at, label_bytes + 3072), np.uint8)
        fine = rng.integers(0, entry.classes, 2 + at, np.uint8)
        records[:, 0] = fine ^ 1  # the coarse label is another one
        records[:, label_bytes - 1] = fine
        contents[place] = records.tobytes()
    hashes = [file_of(place, content) for place, content in contents.items()]
    return replace(entry, files={k: v for each in hashes for k, v in each.items()}), contents


def write(folder, contents):
    """Files with these contents."""
    for place, content in contents.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_bytes(content)
