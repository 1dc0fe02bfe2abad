"""Small data sets in LIBSVM's format under the published names."""

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from heavystep.lab.data import LIBSVM, VARIABLE
from tests.helpers.data_sets import changed, file_of

ROWS, COLUMNS = 150, 6


def text(seed):
    """Rows of different length, one of them empty, with labels 1 and 2; and how many are 2."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(ROWS, COLUMNS)) * (rng.random((ROWS, COLUMNS)) < 0.7)
    features[:, -1] = 1.0
    features[7] = 0.0
    labels = np.where(features @ rng.normal(size=COLUMNS) > 0.3, 2, 1)
    lines = (
        " ".join([str(label), *(f"{j + 1}:{x:.6f}" for j, x in enumerate(row) if x)])
        for label, row in zip(labels, features, strict=True)
    )
    return "\n".join(lines) + "\n", int((labels == 2).sum())


@contextmanager
def folder(path, names):
    """A data folder with these data sets, small ones, and a catalogue that knows their sizes."""
    (path / "libsvm").mkdir(parents=True, exist_ok=True)
    entries = {}
    for seed, (name, entry) in enumerate(LIBSVM.items()):
        content, positives = text(seed)
        known = file_of(f"libsvm/{name}", content.encode())
        entries[name] = replace(entry, n=ROWS, dim=COLUMNS, positives=positives, files=known)
        if name in names:
            (path / "libsvm" / name).write_text(content)
    with changed(**entries), pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(path))
        yield path / "libsvm"
