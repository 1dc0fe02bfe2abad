"""Logistic regression on the data sets of the catalogue, as Appendix E states it."""

import hashlib
from functools import cache
from pathlib import Path

from heavystep.data import binary_labels, load
from heavystep.data.locate import locate
from heavystep.problems import SparseLogistic


def logistic_on(name: str) -> SparseLogistic:
    """Unregularised, without intercept, rows of unit length; read once a process.

    Args:
        name: a data set of the catalogue.

    Raises:
        ValueError: its file is damaged, or not the published one.
        OSError: it is not here, or cannot be read.
    """
    return _read(name, locate(name))


# By the file as well: the data folder may be another one at the next call.
@cache
def _read(name: str, file: Path) -> SparseLogistic:
    data = load(name)
    return SparseLogistic(data.rows.unit_length(), binary_labels(data.labels))


@cache
def fingerprint(problem: SparseLogistic) -> str:
    """Hash of the numbers that a problem is made of, wherever they came from."""
    rows = problem.rows
    digest = hashlib.sha256(str(rows.dim).encode())
    for array in (rows.indptr, rows.indices, rows.values, problem.y):
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()[:24]
