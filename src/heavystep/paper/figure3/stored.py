"""How far the runs of Figure 3 go that are there."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from heavystep.paper.figure3.definition import methods
from heavystep.training.specification import Scale, TrainingSpec, counted
from heavystep.training.store import Stored


class Extent(NamedTuple):
    """The runs that are there on one data set at one scale."""

    data_set: str
    scale: Scale
    seeds: int
    """One more than the largest seed that is there."""
    epochs: int
    """The last epoch that every method reaches; a method without any run does not count."""
    methods: frozenset[str]
    shortest: tuple[str, ...]
    """The methods that go no further than that; empty if all go equally far."""
    longest: int
    """The last epoch that some method reaches."""

    def limit(self) -> str:
        """Say which methods keep the others from being shown to their end; empty if none does."""
        if not self.shortest:
            return ""
        names = ", ".join(self.shortest)
        return (
            f"{self.data_set}: only the first {counted(self.epochs, 'epoch')} of up to "
            f"{self.longest}, because there are no more of {names}"
        )

    @property
    def images(self) -> int:
        """How many images one run has seen, by which extents are compared."""
        return self.epochs * self.scale.train_images


def extents(found: Iterable[tuple[TrainingSpec, Stored]]) -> Iterator[Extent]:
    """The extent of the runs, for each data set and scale.

    A seed that is shorter than others of its method does not shorten the others. Runs of methods
    that are not the figure's do not count.

    Args:
        found: runs with their epochs.
    """
    groups: dict[tuple[str, Scale], list[tuple[TrainingSpec, Stored]]] = {}
    known = methods().values()
    for run, stored in found:
        if run.method not in known or not stored.epochs:
            continue
        groups.setdefault((run.data_set, run.scale), []).append((run, stored))
    for (data_set, scale), runs in groups.items():
        reach: dict[str, int] = {}
        for run, stored in runs:
            reach[run.method.name] = max(reach.get(run.method.name, 0), stored.epochs)
        seeds = 1 + max(run.seed for run, _ in runs)
        least, most = min(reach.values()), max(reach.values())
        shortest = tuple(name for name, epochs in reach.items() if epochs == least < most)
        yield Extent(data_set, scale, seeds, least, frozenset(reach), shortest, most)
