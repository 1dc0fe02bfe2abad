"""Batches that successive steps share: kept for several steps, or half of each in the next."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from heavystep import validation


class PersistentBatches:
    """Indices of batches, for methods that compare gradients of the same samples.

    Give it to a ``DataLoader`` as ``batch_sampler``. An epoch goes through all samples in a new
    order, without those that do not fill a batch. With several processes each has rows of its own,
    as many as the others.

    A run that was stopped within an epoch goes on with the same batches if it loads the
    ``state_dict``, which is the same in all processes. A ``DataLoader`` with workers asks for
    batches ahead of the steps: put the ``epoch`` of the last step into the state, and how many
    steps it has had as the ``position``.

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
        self._made_with = {**sizes, "overlap": overlap, "seed": seed}
        self._n, self._size, self._kept, self._seed = n, batch_size, kept, seed
        self._ours = slice(rank, n, world_size)
        self._stride = batch_size - batch_size // 2 if overlap else batch_size
        self._length = ((rows - batch_size) // self._stride + 1) * kept
        self._epoch, self._position, self._resumes = 0, 0, False

    @property
    def epoch(self) -> int:
        """The number of the epoch that it is in, or that comes next."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Let that epoch come next. If it is the one that was loaded, it goes on where it was."""
        validation.integer("epoch", epoch, least=0)
        if not (self._resumes and epoch == self._epoch):
            self._stand(epoch, 0)

    def __len__(self) -> int:
        """Steps in an epoch."""
        return self._length

    def __iter__(self) -> Iterator[list[int]]:
        """The batches of one epoch, or what is left of the one that was loaded."""
        if self._position > 0 and not self._resumes:  # the last one was left before its end
            self._stand(self._epoch + 1, 0)
        epoch, self._resumes = self._epoch, False
        rows = np.random.default_rng([self._seed, epoch]).permutation(self._n)[self._ours]
        for step in range(self._position, self._length):
            first = step // self._kept * self._stride
            self._stand(epoch, step + 1)
            yield rows[first : first + self._size].tolist()

    def state_dict(self) -> dict[str, Any]:
        """The arguments, and how many batches of the epoch were asked for."""
        return {**self._made_with, "epoch": self._epoch, "position": self._position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where that state was; ValueError if it is that of other batches."""
        wanted = {*self._made_with, "epoch", "position"}
        if not isinstance(state, Mapping) or not state.keys() >= wanted:
            got = sorted(map(str, state)) if isinstance(state, Mapping) else state
            needs = ", ".join(sorted(wanted))
            raise ValueError(f"state must be that of such batches, with {needs}, got {got!r}")
        for name, value in self._made_with.items():
            if state[name] != value:
                raise ValueError(f"{name} must be {state[name]!r} as in the state, got {value!r}")
        validation.integer("epoch", state["epoch"], least=0)
        validation.integer("position", state["position"], least=0)
        if state["position"] > self._length:
            raise ValueError(
                f"position must be at most the {self._length} steps of an epoch, "
                f"got {state['position']}"
            )
        self._stand(state["epoch"], state["position"])
        self._resumes = True

    def _stand(self, epoch: int, position: int) -> None:
        """Where it is; the end of an epoch is the beginning of the next one."""
        ended = position == self._length
        self._epoch, self._position = (epoch + 1, 0) if ended else (epoch, position)
