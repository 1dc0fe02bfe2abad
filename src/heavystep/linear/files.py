"""LIBSVM files as scikit-learn takes them."""

from pathlib import Path
from typing import Any

import scipy.sparse

from heavystep.arrays import Array
from heavystep.data import load


def load_libsvm(source: str | Path, dim: int | None = None) -> tuple[Any, Array]:
    """A LIBSVM file, plain or compressed, or a data set by name: (CSR matrix, labels).

    Args:
        source: path, or a name that ``heavystep data list`` shows.
        dim: number of columns; None: as many as the file names. For a test file, that of the
            training file.
    """
    rows, labels = load(source, dim)
    matrix = scipy.sparse.csr_matrix(
        (rows.values, rows.indices, rows.indptr), shape=(rows.n, rows.dim)
    )
    return matrix, labels
