"""Batches that successive steps share: kept for several steps, or half of each in the next."""

from collections.abc import Iterator

import numpy as np

from heavystep import validation


class PersistentBatches:
    """Indices of batches, for methods that compare gradients of the same samples.

    Give it to a ``DataLoader`` as ``batch_sampler``. An epoch goes through all samples in a new
    order, without those that do not fill a batch. With several processes each has rows of its own,
    as many as the others.

    A run that was stopped goes on with the same batches after ``set_epoch(epoch, position)``, with
    the number of the epoch and of the steps it had taken in it.

    Args:
        n: number of samples.
        batch_size: samples in a batch of one process, at most n / world_size.
        kept: for how many steps a batch is kept, >= 1.
        overlap: whether the first half of a batch is the second half of the one before.
        seed: of the orders, >= 0; the same in all processes.
        rank: the number of this process, from 0 on.
        world_size: how many processes there are.

    >>> batches = list(PersistentBatches(6, 2, kept=2))
    >>> [len(batches), batches[0] == batches[1], batches[1] == batches[2]]
    [6, True, False]
    >>> first, second, *others = PersistentBatches(6, 4, overlap=True)
    >>> first[2:] == second[:2]
    True
    >>> halves = [PersistentBatches(6, 3, rank=rank, world_size=2) for rank in range(2)]
    >>> sorted(index for half in halves for batch in half for index in batch)
    [0, 1, 2, 3, 4, 5]
    """

    def __init__(
        self, n: int, batch_size: int, *, kept: int = 1, overlap: bool = False, seed: int = 0,
        rank: int = 0, world_size: int = 1,
    ) -> None:  # fmt: skip
        sizes = {"n": n, "batch_size": batch_size, "kept": kept, "world_size": world_size}
        for name, value in sizes.items():
            validation.integer(name, value, least=1)
        validation.choice("overlap", overlap, (False, True))
        validation.integer("seed", seed, least=0)
        validation.integer("rank", rank, least=0)
        if rank >= world_size:
            raise ValueError(f"rank must be below world_size = {world_size}, got {rank}")
        rows = n // world_size
        if batch_size > rows:
            most = f"n = {n}" if world_size == 1 else f"n / world_size = {rows}"
            raise ValueError(f"batch_size must be at most {most}, got {batch_size}")
        if overlap and batch_size < 2:
            raise ValueError(f"batch_size must be >= 2 for halves to overlap, got {batch_size}")
        self._n, self._size, self._kept, self._seed = n, batch_size, kept, seed
        self._ours = slice(rank, n, world_size)
        self._stride = batch_size - batch_size // 2 if overlap else batch_size
        self._length = ((rows - batch_size) // self._stride + 1) * kept
        self.set_epoch(0)

    def set_epoch(self, epoch: int, position: int = 0) -> None:
        """Let that epoch come next, without its first ``position`` batches."""
        validation.integer("epoch", epoch, least=0)
        validation.integer("position", position, least=0)
        self._epoch, self._position = epoch, position

    def __len__(self) -> int:
        """Steps in an epoch."""
        return self._length

    def __iter__(self) -> Iterator[list[int]]:
        """The batches of one epoch; the next epoch comes next, also if this one is left early."""
        epoch, position = self._epoch, self._position
        self.set_epoch(epoch + 1)
        rows = np.random.default_rng([self._seed, epoch]).permutation(self._n)[self._ours]
        for step in range(position, self._length):
            first = step // self._kept * self._stride
            yield rows[first : first + self._size].tolist()
