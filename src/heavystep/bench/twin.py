"""A stand-in for real-sim, a collection of texts, where the data set itself is not at hand.

It has the size, density and share of positive labels of real-sim. The rest is only similar to text:
few words are in most rows and most words in few, rare words count more, and a part of the words
decides the label. Words are drawn independently, without topics, so that labels are harder to
predict than those of real texts.
"""

import numpy as np

from heavystep.arrays import Array
from heavystep.problems import SparseLogistic
from heavystep.sparse import SparseRows

ROWS, COLUMNS, ENTRIES, POSITIVES = 72_309, 20_958, 51, 22_238 / 72_309
HEAD = 10.0
"""The popularity of a word is 1 / (rank + HEAD), the law of Zipf and Mandelbrot."""
TELLING = 0.1
"""The share of words that the label depends on."""
NOISE = 0.2
"""The standard deviation of the noise in the scores, in units of that of the scores."""


def real_sim_twin(
    n: int = ROWS, dim: int = COLUMNS, entries: int = ENTRIES, seed: int = 0
) -> SparseLogistic:
    """Rows of unit length with labels; the same arguments give the same numbers.

    Args:
        n: number of rows.
        dim: number of columns.
        entries: number of entries in each row, at most ``dim``.
        seed: of everything that is drawn.

    >>> twin = real_sim_twin(n=100, dim=50, entries=5)
    >>> twin.n, twin.dim, len(twin.rows.values), int((twin.y > 0).sum())
    (100, 50, 500, 31)
    """
    if not 1 <= entries <= dim:
        raise ValueError(f"entries must be in 1 .. dim = {dim}, got {entries}")
    rng = np.random.default_rng(seed)
    popularity = 1.0 / (rng.permutation(dim) + HEAD)
    columns = distinct_columns(rng, popularity / popularity.sum(), n, entries)
    # Rare words weigh more (inverse document frequency), repeated ones too.
    spread = np.bincount(columns, minlength=dim)[columns]
    values = np.log(n / spread) + 1.0
    values *= rng.lognormal(sigma=0.3, size=len(values))
    starts = np.arange(n + 1, dtype=np.int64) * entries
    rows = SparseRows(starts, columns.astype(np.int32), values, dim).unit_length()
    return SparseLogistic(rows, _labels(rng, rows))


def distinct_columns(rng: np.random.Generator, chances: Array, n: int, entries: int) -> Array:
    """(n * entries,) columns, ascending within each row; repeated ones are drawn again."""
    bounds = np.cumsum(chances)

    def drawn(size: int) -> Array:
        columns: Array = np.searchsorted(bounds, rng.random(size) * bounds[-1], side="right")
        return columns

    columns, unsure = drawn(n * entries).reshape(n, entries), np.arange(n)
    while len(unsure):
        rows = np.sort(columns[unsure], axis=1)
        twice = np.zeros(rows.shape, dtype=bool)
        twice[:, 1:] = rows[:, 1:] == rows[:, :-1]
        rows[twice] = drawn(int(twice.sum()))
        columns[unsure] = rows
        unsure = unsure[twice.any(axis=1)]
    return columns.ravel()


def _labels(rng: np.random.Generator, rows: SparseRows) -> Array:
    """Labels: +1 for the rows with the largest noisy scores, a share of POSITIVES, and -1 else."""
    model = rng.normal(size=rows.dim) * (rng.random(rows.dim) < TELLING)
    scores = rows.dot(model)
    scores += NOISE * scores.std() * rng.normal(size=rows.n)
    labels = -np.ones(rows.n)
    labels[np.argsort(scores)[rows.n - round(POSITIVES * rows.n) :]] = 1.0
    return labels
