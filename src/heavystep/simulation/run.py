"""Many seeds of one method on one problem: metrics on a grid, in threads."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import inf
from typing import Any

import numpy as np

from heavystep import validation
from heavystep.arrays import Array
from heavystep.problems import FiniteSum, SparseLogistic
from heavystep.records import Trajectories
from heavystep.rules import FIRST_STEP
from heavystep.simulation.checks import EPS, checked_samples
from heavystep.simulation.kernel_cache import COMPILES, kernel
from heavystep.simulation.layout import terms_of
from heavystep.simulation.method import Method
from heavystep.simulation.streams import stream_key
from heavystep.simulation.terms import objective
from heavystep.simulation.trajectory import Scene, State, advance
from heavystep.simulation.watch import (
    ROUNDINGS,
    THEORY_METRICS,
    TRAINING_METRICS,
    MeanWatch,
    TheoryWatch,
    TrainingWatch,
)

CHUNK = 1 << 16
Problem = FiniteSum | SparseLogistic


def log_grid(iterations: int, points: int = 200) -> Array:
    """About ``points`` whole numbers from 1 to ``iterations``, evenly spaced on a log axis.

    >>> log_grid(1000, 4).tolist()
    [1, 10, 100, 1000]
    """
    exact = np.logspace(0.0, np.log10(iterations), points)
    return np.unique(np.rint(exact).astype(np.int64))


def trajectories(
    problem: Problem,
    method: Method,
    *,
    seeds: Sequence[int],
    iterations: int,
    grid: Array | None = None,
    batch_size: int = 1,
    indices: Array | None = None,
    threads: int | None = None,
    progress: Callable[[int], None] = lambda steps: None,
) -> Trajectories:
    """Run a method from several seeds and record its metrics.

    Each seed has its own stream of samples, so that neither the number of threads nor the other
    seeds change a run.

    Args:
        problem: a problem with kernels.
        method: what to run.
        seeds: one run each.
        iterations: steps of each run.
        grid: numbers of steps after which metrics are recorded; default :func:`log_grid`.
        batch_size: terms sampled at each step, with replacement.
        indices: (seeds, iterations, batch_size) samples in place of the streams.
        threads: how many runs at once; default: all cores.
        progress: called with the number of steps done since the last call.

    Raises:
        ValueError: a run diverged, or an argument is out of range.

    >>> from heavystep.problems import paper_least_squares
    >>> method = Method("polyak", beta=0.9, c=0.75, gamma_max=1.0)
    >>> result = trajectories(paper_least_squares(), method, seeds=[0, 1], iterations=100)
    >>> result.metrics["gap_average"].shape == (2, len(result.k))
    True
    """
    validation.integer("iterations", iterations, least=1)
    validation.integer("batch_size", batch_size, least=1)
    if not len(seeds):
        raise ValueError("seeds must name at least one run, got none")
    if threads is not None:
        validation.integer("threads", threads, least=1)
    grid = _checked_grid(log_grid(iterations) if grid is None else grid, iterations)
    if indices is not None:
        indices = checked_samples(problem, indices, ndim=3)
        wanted = (len(seeds), iterations, batch_size)
        if indices.shape != wanted:
            raise ValueError(f"indices must have shape {wanted}, got {indices.shape}")
    check_compiler()
    runs = [Run(problem, method, seed, grid) for seed in seeds]
    empty = np.empty((0, batch_size), dtype=np.int64)

    def go(run: int, first: int, count: int) -> None:
        part = empty if indices is None else indices[run, first : first + count]
        done = runs[run].advance(count, part)
        if done < count:
            raise ValueError(
                f"seed {seeds[run]} stopped at step {first + done}: loss or gradient not finite, "
                "or no trial step accepted"
            )
        progress(done)

    with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        for first in range(0, iterations, CHUNK):
            count = min(CHUNK, iterations - first)
            for _ in pool.map(lambda r: go(r, first, count), range(len(runs))):  # noqa: B023
                pass
    stacked = np.stack([run.out for run in runs])
    columns = {name: stacked[:, :, column] for column, name in enumerate(metric_names(problem))}
    return Trajectories(grid, tuple(seeds), columns)


def check_compiler() -> None:
    """See that there is one.

    Raises:
        ValueError: it was switched off.
    """
    if not COMPILES:
        raise ValueError("trajectories are compiled by numba: unset NUMBA_DISABLE_JIT")


def metric_names(problem: Problem) -> tuple[str, ...]:
    """What is recorded of a problem's runs."""
    return TRAINING_METRICS if isinstance(problem, SparseLogistic) else THEORY_METRICS


def _checked_grid(grid: Array, iterations: int) -> Array:
    counts = np.asarray(grid)
    whole = np.issubdtype(counts.dtype, np.integer) and counts.ndim == 1 and counts.size
    if not whole or counts[0] < 1 or counts[-1] > iterations or (np.diff(counts) <= 0).any():
        raise ValueError(f"grid must increase within 1 .. {iterations}, got {grid!r}")
    return counts.astype(np.int64)


def full_loss(run: "Run", point: Array) -> float:
    """F at a point, by the kernel of the run's problem."""
    return float(_objective(run.terms, point))


@kernel
def _objective(terms: Any, point: Any) -> Any:
    return objective(terms, point)


class Run:
    """One seed's state and records."""

    def __init__(self, problem: Problem, method: Method, seed: int, grid: Array) -> None:
        self.problem, self.method = problem, method
        self.terms, self.rule = terms_of(problem), method.kernel_rule()
        theta = np.array(problem.theta0)
        self.state = State(theta, np.zeros_like(theta), np.array([FIRST_STEP]))
        self.scene = Scene(grid, stream_key(seed), problem.n, method.growth_factor())
        self.watch: TheoryWatch | TrainingWatch | MeanWatch = _watch(problem)
        self.out = np.full((len(grid), len(metric_names(problem))), np.nan)
        self.steps = 0

    def advance(self, count: int, indices: Any) -> int:
        """Take ``count`` steps and return how many succeeded.

        Args:
            count: how many.
            indices: (count, batch) samples, or (0, batch) for those of the seed's stream.
        """
        done = advance(
            self.terms,
            self.rule,
            self._watch(count),
            self.method.parameters(self.steps, count),
            self.state,
            self.scene,
            self.steps,
            indices,
            self.out,
        )
        self.steps += int(done)
        return int(done)

    def change_method(self, method: Method) -> None:
        """Go on with another method from where the run is."""
        self.method, self.rule = method, method.kernel_rule()
        self.scene = self.scene._replace(growth=method.growth_factor())

    def _watch(self, count: int) -> Any:
        """What is measured, with what the theory says of the next ``count`` steps."""
        if not isinstance(self.watch, TheoryWatch):
            return self.watch
        L = self.problem.L
        least = self.method.least_steps(L, self.steps, count)
        return self.watch._replace(least=least, weights=self.method.weights(L, self.steps, count))


def _watch(problem: Problem) -> TheoryWatch | TrainingWatch:
    if isinstance(problem, SparseLogistic):
        return TrainingWatch(np.zeros(5))
    numbers = np.array([0.0, inf, inf, inf, 0.0, 0.0])
    size = np.linalg.norm(problem.theta0) + np.linalg.norm(problem.theta_star)
    error, none = ROUNDINGS * EPS * float(size), np.empty(0)
    return TheoryWatch(np.zeros(problem.dim), numbers, error, float(problem.L), none, none)
