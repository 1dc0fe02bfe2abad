"""Data that are made up where solvers differ: a dense ill-conditioned set, and rare columns.

Neither is scaled: rows have the lengths that they happen to have, and columns the sizes.
"""

import numpy as np

from heavystep.bench.twin import distinct_columns
from heavystep.problems import SparseLogistic
from heavystep.sparse import SparseRows

CONDITION = 1e3
"""Largest over smallest singular value of the dense set's rows, about."""
STEEPNESS = 1.2
"""The popularity of a column falls as rank ** -STEEPNESS."""
SIZES = 1.0
"""Standard deviation of the logarithms of the columns' sizes."""


def ill_conditioned(n: int = 100_000, dim: int = 50, seed: int = 0) -> SparseLogistic:
    """Dense correlated rows, whose labels depend on all directions alike.

    >>> found = ill_conditioned(n=100, dim=5)
    >>> found.n, found.dim, len(found.rows.values)
    (100, 5, 500)
    """
    rng = np.random.default_rng(seed)
    mixed, _ = np.linalg.qr(rng.normal(size=(dim, dim)))
    sources = rng.normal(size=(n, dim))
    lengths = np.logspace(0.0, -np.log10(CONDITION), dim)
    scores = sources @ rng.normal(size=dim) / np.sqrt(dim) + 0.5 * rng.logistic(size=n)
    return SparseLogistic(
        SparseRows.from_dense((sources * lengths) @ mixed), np.where(scores > 0.0, 1.0, -1.0)
    )


def power_law(
    n: int = 100_000, dim: int = 10_000, entries: int = 20, seed: int = 0
) -> SparseLogistic:
    """Sparse rows with few common and many rare columns, which differ in size.

    >>> found = power_law(n=100, dim=50, entries=5)
    >>> found.n, found.dim, len(found.rows.values)
    (100, 50, 500)
    """
    rng = np.random.default_rng(seed)
    popularity = (1.0 + rng.permutation(dim)) ** -STEEPNESS
    columns = distinct_columns(rng, popularity / popularity.sum(), n, entries)
    sizes = rng.lognormal(sigma=SIZES, size=dim)
    values = sizes[columns] * rng.lognormal(sigma=0.5, size=len(columns))
    starts = np.arange(n + 1, dtype=np.int64) * entries
    rows = SparseRows(starts, columns.astype(np.int32), values, dim)
    scores = rows.dot(rng.normal(size=dim) / sizes) / np.sqrt(entries)
    scores += 0.5 * rng.logistic(size=n)
    return SparseLogistic(rows, np.where(scores > np.median(scores), 1.0, -1.0))
