"""How time and memory of a simulated step grow: with parameters, terms, batch and seeds."""

from typing import NamedTuple

import numpy as np

from heavystep.arrays import Array
from heavystep.bench.timing import interleaved
from heavystep.problems import Cosine
from heavystep.simulation.configuration import Configuration, configure
from heavystep.simulation.fleet import Run
from heavystep.simulation.run import log_grid, simulate

GAUGE = 100_000
"""Numbers of the data that all steps of a measurement go through together, times 100."""
SIZES = (
    *((d, 500, 1, 1) for d in (10, 100, 1000, 10_000)),
    *((100, n, 1, 1) for n in (50, 5000, 50_000)),
    *((100, 500, batch, 1) for batch in (10, 100)),
    *((20, 500, 1, seeds) for seeds in (1, 4, 20)),
    *((1000, 500, 1, seeds) for seeds in (4, 20)),
)
"""Parameters d, terms n, batch and seeds."""


NONE = np.array([1])
"""A grid on which nothing is recorded by a run that takes no step."""


class Growth(NamedTuple):
    """What the cosine problem of one size costs."""

    dim: int
    terms: int
    batch: int
    seeds: int
    nanoseconds: float
    """For a step of one seed."""
    seed_bytes: int
    """That each seed has for itself."""
    data_bytes: int
    """That all seeds share."""

    @property
    def each(self) -> float:
        """Nanoseconds for each number of the batch: the same for all sizes if costs are linear."""
        return self.nanoseconds / (self.dim * self.batch)


def growth_costs(repeats: int = 3) -> list[Growth]:
    """The third table of ``heavystep bench simulation``: all sizes, in turns."""
    problems = {size[:2]: _problem(*size[:2]) for size in SIZES}
    method = configure("SHBPolyak", momentum=0.9, c=0.75, scaling="theory")
    steps = {size: max(100, 100 * GAUGE // (size[0] * size[2] * size[3])) for size in SIZES}
    simulate(problems[SIZES[0][:2]], method, seeds=[0], iterations=10)  # compiles

    def job(size: tuple[int, int, int, int]) -> object:
        dim, terms, batch, seeds = size
        return lambda: simulate(
            problems[dim, terms], method, seeds=seeds, iterations=steps[size], batch_size=batch,
            grid=np.array([steps[size]]), threads=1,
        )  # fmt: skip

    times = interleaved({str(size): lambda s=size: job(s) for size in SIZES}, repeats)  # type: ignore[misc]
    return [
        Growth(
            *size,
            times[str(size)] / (steps[size] * size[3]) * 1e9,
            bytes_a_seed(problems[size[:2]], method, size[2]),
            sum(array.nbytes for array in _arrays(Run(problems[size[:2]], method, 0, NONE).terms)),
        )
        for size in SIZES
    ]


def bytes_a_seed(problem: Cosine, method: Configuration, batch: int) -> int:
    """What a run holds for itself: state, measurements, records of 200 points, gradient and batch.

    >>> method = configure("SHBPolyak")
    >>> bytes_a_seed(_problem(20, 50), method, 1) < 16_000
    True
    """
    run = Run(problem, method, 0, log_grid(10**6))
    held = [*_arrays(run.state), *_arrays(run.watch), run.out]
    # The gradient and the vector that trials go along, which the kernel makes.
    room = 2 * run.state.theta.nbytes + 8 * batch
    return sum(array.nbytes for array in held) + room


def _arrays(parts: tuple[object, ...]) -> list[Array]:
    return [part for part in parts if isinstance(part, np.ndarray)]


def _problem(dim: int, terms: int) -> Cosine:
    draw = np.random.default_rng([dim, terms])
    tilts = draw.standard_normal((terms, dim))
    return Cosine(draw.uniform(0.5, 1.5, terms), tilts - tilts.mean(axis=0))
