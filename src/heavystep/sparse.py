"""Rows of numbers most of which are 0, stored one after another (CSR)."""

from dataclasses import dataclass

import numpy as np

from heavystep.arrays import Array


@dataclass(frozen=True, eq=False)
class SparseRows:
    """A matrix of ``n`` rows and ``dim`` columns; row i holds entries indptr[i] .. indptr[i + 1].

    Args:
        indptr: (n + 1,) int64, where each row begins; the last entry is the number of entries.
        indices: (entries,) int32, the column of each entry, from 0; no column twice in a row.
        values: (entries,) float64 or float32.
        dim: number of columns.

    Raises:
        ValueError: the arrays do not belong together, or a column is out of range or comes twice
            in a row. Kernels read the arrays without looking.

    >>> rows = SparseRows.from_dense([[0.0, 3.0, 4.0], [0.0, 0.0, 0.0]])
    >>> rows.n, rows.dim, rows.indices.tolist(), rows.norms().tolist()
    (2, 3, [1, 2], [5.0, 0.0])
    """

    indptr: Array
    indices: Array
    values: Array
    dim: int

    def __post_init__(self) -> None:
        kinds = {"indptr": (np.int64,), "indices": (np.int32,), "values": (np.float64, np.float32)}
        for name, allowed in kinds.items():
            array = getattr(self, name)
            if array.ndim != 1 or array.dtype not in allowed or not array.flags.c_contiguous:
                wanted = " or ".join(np.dtype(kind).name for kind in allowed)
                got = f"{array.dtype} {array.shape}"
                raise ValueError(f"{name} must be one contiguous row of {wanted}, got {got}")
        entries = len(self.values)
        if len(self.indptr) < 1 or self.indptr[0] != 0 or self.indptr[-1] != entries:
            raise ValueError(f"indptr must go from 0 to the number of entries, {entries}")
        if len(self.indices) != entries or (np.diff(self.indptr) < 0).any():
            raise ValueError("indptr must not decrease, and indices must match values")
        if entries and (self.indices.min() < 0 or self.indices.max() >= self.dim):
            found = f"{self.indices.min()} .. {self.indices.max()}"
            raise ValueError(f"indices must be in 0 .. {self.dim - 1}, got {found}")
        ascends = self.indices[1:] > self.indices[:-1]
        begins = self.indptr[(self.indptr > 0) & (self.indptr < len(self.indices))]
        ascends[begins - 1] = True
        if not ascends.all():
            row = self.row_of_entries()
            order = np.lexsort((self.indices, row))
            row, column = row[order], self.indices[order]
            twice = np.flatnonzero((row[1:] == row[:-1]) & (column[1:] == column[:-1]))
            if len(twice):
                got = f"column {column[twice[0]]} twice in row {row[twice[0]]}"
                raise ValueError(f"indices must differ within a row, got {got}: add the entries up")

    @classmethod
    def from_dense(cls, matrix: object) -> "SparseRows":
        """The entries of a matrix that are not 0."""
        dense = np.asarray(matrix, dtype=np.float64)
        row, column = np.nonzero(dense)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(dense)))])
        indices = column.astype(np.int32)
        return cls(indptr.astype(np.int64), indices, dense[row, column], dense.shape[1])

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    def row_of_entries(self) -> Array:
        """(entries,) the row that each entry belongs to."""
        return np.repeat(np.arange(self.n), np.diff(self.indptr))

    def norms(self) -> Array:
        """(n,) Euclidean length of each row."""
        row = self.row_of_entries()
        largest = np.zeros(self.n)
        np.maximum.at(largest, row, np.abs(self.values, dtype=np.float64))
        # Squares of parts of the largest entry neither overflow nor vanish.
        parts = np.divide(
            self.values, largest[row], where=largest[row] > 0.0, out=np.zeros(len(row))
        )
        return largest * np.sqrt(np.bincount(row, parts * parts, minlength=self.n))

    def unit_length(self) -> "SparseRows":
        """Rows scaled to length 1; an empty row stays empty.

        >>> SparseRows.from_dense([[0.0, 3.0, 4.0], [0.0, 0.0, 0.0]]).unit_length().values
        array([0.6, 0.8])
        """
        norms = self.norms()
        values = self.values / np.where(norms > 0.0, norms, 1.0)[self.row_of_entries()]
        return SparseRows(self.indptr, self.indices, values.astype(self.values.dtype), self.dim)

    def dot(self, theta: Array) -> Array:
        """(n,) inner product of each row with ``theta``."""
        products = self.values * theta[self.indices]
        return np.bincount(self.row_of_entries(), products, minlength=self.n)
