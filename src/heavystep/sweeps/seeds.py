"""The jobs of an engine: seeds of a simulated run."""

import time

import numpy as np

from heavystep.arrays import Array
from heavystep.records import Trajectories
from heavystep.simulation.configuration import Configuration
from heavystep.simulation.run import CHUNK, Problem, Run, metric_names, simulate
from heavystep.sweeps.engines import Advance


def some_seeds(
    problem: Problem,
    method: Configuration,
    seeds: tuple[int, ...],
    iterations: int,
    grid: Array,
    batch_size: int,
    advance: Advance,
) -> Trajectories:
    """Run a method on a problem from some seeds, side by side on one core.

    Args:
        problem: what to minimise.
        method: with its options.
        seeds: of the samples, one for each run.
        iterations: steps of each run.
        grid: numbers of steps after which metrics are recorded.
        batch_size: terms sampled at each step.
        advance: told how many steps were taken since the last call.
    """
    return simulate(
        problem,
        method,
        seeds=seeds,
        iterations=iterations,
        grid=grid,
        batch_size=batch_size,
        threads=1,
        progress=advance,
    )


def timed_seed(
    problem: Problem,
    method: Configuration,
    seed: int,
    iterations: int,
    grid: Array,
    batch_size: int,
    advance: Advance,
) -> Trajectories:
    """Run one seed and measure the time; it may stop, and the rest of it is then NaN.

    It is timed when it is made once more and recorded at its end only: the first time may have to
    compile, and on large data most of it is spent on the full losses of the records.
    """
    first = Run(problem, method, seed, grid)
    _go(first, iterations, batch_size, advance)
    again = Run(problem, method, seed, np.array([iterations]))
    begin = time.perf_counter()
    _go(again, iterations, batch_size, lambda steps: None)
    seconds = time.perf_counter() - begin
    names = metric_names(problem)
    metrics = {name: first.out[None, :, place] for place, name in enumerate(names)}
    return Trajectories(grid, (seed,), metrics, (seconds,))


def _go(run: Run, iterations: int, batch_size: int, advance: Advance) -> None:
    """Take all steps, or those up to where the run stops."""
    stream = np.empty((0, batch_size), dtype=np.int64)
    for first in range(0, iterations, CHUNK):
        count = min(CHUNK, iterations - first)
        done = run.advance(count, stream)
        advance(count)
        if done < count:
            return
