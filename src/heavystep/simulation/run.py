"""Many seeds of one method on one problem: metrics on a grid, in threads."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import ceil
from typing import Any

import numpy as np

from heavystep import validation
from heavystep.arrays import Array
from heavystep.problems.variance_reduced import original
from heavystep.records import Trajectories
from heavystep.simulation.checks import checked_samples
from heavystep.simulation.configuration import Configuration, configure
from heavystep.simulation.fleet import Fleet, Problem, Run, full_loss, metric_names
from heavystep.simulation.kernel_cache import COMPILES

__all__ = ["Problem", "Run", "full_loss", "log_grid", "metric_names", "simulate"]
CHUNK = 1 << 16
"""Steps between two reports of progress."""
MOST_LANES = 20
"""Seeds that one core runs side by side: as many as Figure 1 has of a method."""
ARRAYS = 4
"""Of the size of a point, which a step of one seed goes through: point, buffer, gradient, mean."""


def log_grid(iterations: int, points: int = 200) -> Array:
    """About ``points`` whole numbers from 1 to ``iterations``, evenly spaced on a log axis.

    >>> log_grid(1000, 4).tolist()
    [1, 10, 100, 1000]
    """
    exact = np.logspace(0.0, np.log10(iterations), points)
    return np.unique(np.rint(exact).astype(np.int64))


def simulate(
    problem: Problem,
    method: str | Configuration,
    *,
    seeds: int | Sequence[int],
    iterations: int,
    grid: Array | None = None,
    batch_size: int = 1,
    indices: Array | None = None,
    threads: int | None = None,
    progress: Callable[[int], None] = lambda steps: None,
    **options: Any,
) -> Trajectories:
    """Run a method from several seeds and record its metrics.

    Each seed has its own stream of samples, so that neither the number of threads nor the other
    seeds change a run.

    Args:
        problem: a problem with kernels: least squares, the cosine problem, sparse logistic
            regression, or one of them as :class:`heavystep.problems.VarianceReduced`.
        method: the name of a method, see ``heavystep methods``, or what
            :func:`heavystep.simulation.configuration.configure` made of one.
        seeds: how many runs, or the seed of each.
        iterations: steps of each run.
        grid: numbers of steps after which metrics are recorded; default :func:`log_grid`.
        batch_size: terms sampled at each step, with replacement.
        indices: (seeds, iterations, batch_size) samples in place of the streams.
        threads: how many runs at once; default: all cores.
        progress: called with the number of steps done since the last call.
        options: if the method is given by its name, what ``configure`` takes besides: the options
            of its optimizer, of which ``lr``, ``momentum`` and ``max_step`` may be schedules, and
            ``average``.

    Raises:
        TypeError: the problem has no kernels, or the method no such option.
        ValueError: a run diverged, or an argument is out of range.

    >>> from heavystep.problems import paper_least_squares
    >>> result = simulate(paper_least_squares(), "SHBPolyak", seeds=[0, 1], iterations=100,
    ...                   momentum=0.9, c=0.75, scaling="theory")
    >>> result.metrics["gap_average"].shape == (2, len(result.k))
    True
    """
    configuration = _configured(method, options)
    validation.integer("iterations", iterations, least=1)
    validation.integer("batch_size", batch_size, least=1)
    seeds = _checked_seeds(seeds)
    if threads is not None:
        validation.integer("threads", threads, least=1)
    grid = _checked_grid(log_grid(iterations) if grid is None else grid, iterations)
    if indices is not None:
        indices = checked_samples(problem, indices, ndim=3)
        wanted = (len(seeds), iterations, batch_size)
        if indices.shape != wanted:
            raise ValueError(f"indices must have shape {wanted}, got {indices.shape}")
    check_compiler()
    runs = [Run(problem, configuration, seed, grid) for seed in seeds]
    threads = threads or os.cpu_count() or 1
    lanes = min(lanes_for(problem), ceil(len(runs) / threads))
    places = [slice(first, first + lanes) for first in range(0, len(runs), lanes)]
    fleets = [Fleet(runs[place]) for place in places]

    def go(which: int, first: int, count: int) -> None:
        fleet, place = fleets[which], places[which]
        part = np.empty((len(fleet.runs), 0, batch_size), dtype=np.int64)
        if indices is not None:
            part = indices[place, first : first + count]
        done = fleet.advance(count, part)
        _check_done(seeds[place], done, first, count)
        progress(sum(done))

    with ThreadPoolExecutor(threads) as pool:
        for first in range(0, iterations, CHUNK):
            count = min(CHUNK, iterations - first)
            for _ in pool.map(lambda f: go(f, first, count), range(len(fleets))):  # noqa: B023
                pass
    stacked = np.stack([run.out for run in runs])
    columns = {name: stacked[:, :, column] for column, name in enumerate(metric_names(problem))}
    return Trajectories(grid, tuple(seeds), columns)


def lanes_for(problem: Problem) -> int:
    """How many seeds one core runs side by side; it changes no number.

    One, if the points of more would not be in the cache that the problem asks for.

    >>> from heavystep.problems import paper_least_squares
    >>> lanes_for(paper_least_squares())
    20
    """
    most = original(problem).lane_bytes // (ARRAYS * 8 * problem.dim)
    return max(1, min(MOST_LANES, most))


def _check_done(seeds: Sequence[int], done: Sequence[int], first: int, count: int) -> None:
    for seed, steps in zip(seeds, done, strict=True):
        if steps < count:
            raise ValueError(
                f"seed {seed} stopped at step {first + steps}: loss or gradient not finite, or no "
                "trial step accepted"
            )


def _checked_seeds(seeds: int | Sequence[int]) -> Sequence[int]:
    if isinstance(seeds, int):
        validation.integer("seeds", seeds, least=1)
        return range(seeds)
    if not len(seeds):
        raise ValueError("seeds must name at least one run, got none")
    return seeds


def _configured(method: str | Configuration, options: dict[str, Any]) -> Configuration:
    if isinstance(method, str):
        return configure(method, **options)
    if not isinstance(method, Configuration):
        raise TypeError(f"method must be the name of a method, such as 'SHBPolyak', got {method!r}")
    if options:
        raise TypeError(
            f"options ({', '.join(options)}) go with the name of a method; a Configuration has its "
            "own already"
        )
    return method


def check_compiler() -> None:
    """Refuse to go on if numba's compiler is switched off.

    Raises:
        ValueError: it is.
    """
    if not COMPILES:
        raise ValueError("simulations are compiled by numba: unset NUMBA_DISABLE_JIT")


def _checked_grid(grid: Array, iterations: int) -> Array:
    counts = np.asarray(grid)
    whole = np.issubdtype(counts.dtype, np.integer) and counts.ndim == 1 and counts.size
    if not whole or counts[0] < 1 or counts[-1] > iterations or (np.diff(counts) <= 0).any():
        raise ValueError(f"grid must increase within 1 .. {iterations}, got {grid!r}")
    return counts.astype(np.int64)
