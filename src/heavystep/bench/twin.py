"""A stand-in for real-sim, a collection of texts, where the data set itself is not at hand.

Of its size, density and share of positive labels; the rest is only like text: few words are in
most rows and most words in few, rare words count more, and a part of the words decides the label.
Words fall independently, without topics, so that labels are harder to tell than in real texts.
"""

import numpy as np

from heavystep.arrays import Array
from heavystep.problems import SparseLogistic
from heavystep.sparse import SparseRows

ROWS, COLUMNS, ENTRIES, POSITIVES = 72_309, 20_958, 51, 22_238 / 72_309
HEAD = 10.0
"""Popularity is 1 / (rank + HEAD): the law of Zipf and Mandelbrot for words."""
TELLING = 0.1
"""Share of the words that the label depends on."""
NOISE = 0.2
"""Standard deviation of what else decides a label, in units of that of the words' part."""


def real_sim_twin(
    n: int = ROWS, dim: int = COLUMNS, entries: int = ENTRIES, seed: int = 0
) -> SparseLogistic:
    """Unit rows and labels, the same for the same arguments.

    Args:
        n: rows.
        dim: columns.
        entries: in each row, all in different columns; at most ``dim``.
        seed: of everything drawn.

    >>> twin = real_sim_twin(n=100, dim=50, entries=5)
    >>> twin.n, twin.dim, len(twin.rows.values), int((twin.y > 0).sum())
    (100, 50, 500, 31)
    """
    if not 1 <= entries <= dim:
        raise ValueError(f"entries must be in 1 .. dim = {dim}, got {entries}")
    rng = np.random.default_rng(seed)
    popularity = 1.0 / (rng.permutation(dim) + HEAD)
    columns = _distinct_columns(rng, popularity / popularity.sum(), n, entries)
    # Rare words weigh more (inverse document frequency), repeated ones too.
    spread = np.bincount(columns, minlength=dim)[columns]
    values = np.log(n / spread) + 1.0
    values *= rng.lognormal(sigma=0.3, size=len(values))
    starts = np.arange(n + 1, dtype=np.int64) * entries
    rows = SparseRows(starts, columns.astype(np.int32), values, dim).unit_length()
    return SparseLogistic(rows, _labels(rng, rows))


def _distinct_columns(rng: np.random.Generator, chances: Array, n: int, entries: int) -> Array:
    """(n * entries,) columns, ascending within each row; what came twice is drawn again."""
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
    """+1 for the share POSITIVES of the rows whose noisy scores are largest."""
    model = rng.normal(size=rows.dim) * (rng.random(rows.dim) < TELLING)
    scores = rows.dot(model)
    scores += NOISE * scores.std() * rng.normal(size=rows.n)
    labels = -np.ones(rows.n)
    labels[np.argsort(scores)[rows.n - round(POSITIVES * rows.n) :]] = 1.0
    return labels
