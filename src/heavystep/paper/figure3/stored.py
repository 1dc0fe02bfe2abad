"""Figure 3 from the runs that are there, as far as they go."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from heavystep.paper.figure3.definition import methods
from heavystep.training.specification import Scale, TrainingSpec, counted
from heavystep.training.store import Stored


class Extent(NamedTuple):
    """What there is on one data set at one scale."""

    data_set: str
    scale: Scale
    seeds: int
    """The largest seed that is there, plus 1."""
    epochs: int
    """As far as every method goes of which there is something."""
    methods: frozenset[str]
    shortest: tuple[str, ...]
    """Methods that go no further than that, if others do."""
    longest: int
    """How far one goes."""

    def limit(self) -> str:
        """What keeps the others from being shown as far as they go; empty if nothing does."""
        if not self.shortest:
            return ""
        names = ", ".join(self.shortest)
        return (
            f"{self.data_set}: only the first {counted(self.epochs, 'epoch')} of up to "
            f"{self.longest}, because there are no more of {names}"
        )

    @property
    def images(self) -> int:
        """That one run is trained on: by them extents compare."""
        return self.epochs * self.scale.train_images


def extents(found: Iterable[tuple[TrainingSpec, Stored]]) -> Iterator[Extent]:
    """One for each data set and scale.

    A seed that has not gone as far as others of its method does not shorten the others. Runs with
    other options than the figure's methods do not count.

    Args:
        found: runs with what there is of them.
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
