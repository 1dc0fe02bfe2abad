"""Batches that successive steps share: kept for several steps, or half of each in the next."""

from collections.abc import Iterator

import numpy as np

from heavystep import validation


class PersistentBatches:
    """Indices of batches, for methods that compare gradients of the same samples.

    Give it to a ``DataLoader`` as ``batch_sampler``. An epoch goes through all samples in a new
    order; the last samples are left out if they do not fill a batch. ``epoch`` is the number of the
    epoch that comes next: set it to go on after a restart.

    Args:
        n: number of samples.
        batch_size: samples in a batch, at most n.
        kept: for how many steps a batch is kept, >= 1.
        overlap: whether the first half of a batch is the second half of the one before.
        seed: of the orders.

    >>> batches = list(PersistentBatches(6, 2, kept=2))
    >>> [len(batches), batches[0] == batches[1], batches[1] == batches[2]]
    [6, True, False]
    >>> first, second, *others = PersistentBatches(6, 4, overlap=True)
    >>> first[2:] == second[:2]
    True
    """

    def __init__(
        self, n: int, batch_size: int, *, kept: int = 1, overlap: bool = False, seed: int = 0
    ) -> None:
        for name, value in (("n", n), ("batch_size", batch_size), ("kept", kept)):
            validation.integer(name, value, least=1)
        if batch_size > n:
            raise ValueError(f"batch_size must be at most n = {n}, got {batch_size}")
        if overlap and batch_size < 2:
            raise ValueError(f"batch_size must be >= 2 for halves to overlap, got {batch_size}")
        self._n, self._size, self._kept, self._seed = n, batch_size, kept, seed
        self._stride = batch_size - batch_size // 2 if overlap else batch_size
        self.epoch = 0

    def __len__(self) -> int:
        """Steps in an epoch."""
        return ((self._n - self._size) // self._stride + 1) * self._kept

    def __iter__(self) -> Iterator[list[int]]:
        """The batches of one epoch."""
        order = np.random.default_rng([self._seed, self.epoch]).permutation(self._n)
        self.epoch += 1
        for first in range(0, self._n - self._size + 1, self._stride):
            batch = order[first : first + self._size].tolist()
            for _ in range(self._kept):
                yield list(batch)
