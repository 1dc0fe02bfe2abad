"""Small data sets in LIBSVM's format under the names of the catalogue."""

import hashlib
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from heavystep.lab.data import LIBSVM as CATALOGUE
from heavystep.lab.data import VARIABLE

ROWS, COLUMNS = 150, 6


def text(seed):
    """Rows of different length, one of them empty, with labels 1 and 2."""
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
    """A data folder with these data sets, and a catalogue that knows their sizes."""
    (path / "libsvm").mkdir(parents=True, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(path))
        for seed, (name, entry) in enumerate(list(CATALOGUE.items())):
            content, positives = text(seed)
            size = {"n": ROWS, "dim": COLUMNS, "entries": None, "positives": positives,
                    "text_bytes": len(content),
                    "text_sha256": hashlib.sha256(content.encode()).hexdigest()}  # fmt: skip
            patch.setitem(CATALOGUE, name, replace(entry, **size))
            if name in names:
                (path / "libsvm" / name).write_text(content)
        yield path / "libsvm"
