"""Many seeds of one method on one problem: metrics on a grid, seeds on threads."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from heavystep import validation
from heavystep.arrays import Array
from heavystep.lab.simulation.configuration import EPS, Configuration, configure
from heavystep.lab.simulation.loop import (
    ROUNDINGS,
    THEORY_METRICS,
    TRAINING_METRICS,
    Scene,
    State,
    compiled_loop,
    numbers_of,
)
from heavystep.lab.simulation.problems import kernels_of, stream_key
from heavystep.problems import FiniteSum, Problem
from heavystep.records import Trajectories

CHUNK = 1 << 16  # steps between two reports of progress


def metric_names(problem: Problem) -> tuple[str, ...]:
    """Names of the metrics that runs of a problem record."""
    return THEORY_METRICS if isinstance(problem, FiniteSum) else TRAINING_METRICS


def log_grid(iterations: int, points: int = 200) -> Array:
    """About ``points`` whole numbers from 1 to ``iterations``, evenly spaced on a log axis.

    >>> log_grid(1000, 4).tolist()
    [1, 10, 100, 1000]
    """
    exact = np.logspace(0.0, np.log10(iterations), points)
    return np.unique(np.rint(exact).astype(np.int64))


class OneRun:
    """One seed's state and records; it takes steps again and again."""

    def __init__(
        self, problem: Problem, configuration: Configuration, seed: int, grid: Array, size: int
    ) -> None:
        kernels, shared = kernels_of(problem)
        diagonal, dim, names = configuration.diagonal, problem.dim, metric_names(problem)
        known: Any = problem
        theory, point_error = isinstance(known, FiniteSum), 0.0
        numbers = numbers_of(1, *sorted({*THEORY_METRICS, *TRAINING_METRICS, "weights", "taken"}))
        numbers["best"] = numbers["best_after"] = numbers["lowest"] = np.inf
        if not configuration.theory:
            numbers["lowest"] = numbers["highest"] = np.nan
        if theory:
            lengths = np.linalg.norm(known.theta0) + np.linalg.norm(known.theta_star)
            point_error = ROUNDINGS * EPS * float(lengths)
        self.data = kernels.data(shared, size)
        memory = np.array(list(configuration.rule.memory.values()), dtype=np.float64)
        self.state = State(
            theta=np.array(problem.theta0), buffer=np.zeros(dim), memory=memory,
            gradient=np.zeros(dim), way=np.zeros(dim), batch=np.zeros(size, np.int64),
            squares=np.zeros({None: 0, "tensor": 1, "element": dim}[diagonal]),
            weight=np.zeros(1), divisors=np.zeros(dim if diagonal else 0), numbers=numbers,
            average=np.zeros(dim),
        )  # fmt: skip
        self.out = numbers_of(len(grid), *names)
        self.out[:] = np.nan
        self._loop = compiled_loop(kernels, configuration.row, diagonal, theory)
        self._configuration, self._grid, self._steps = configuration, grid, 0
        self._known: dict[str, Any] = {
            "key": stream_key(seed), "n": problem.n, "loss_eps": configuration.loss_eps,
            "weighted": configuration.average == "weighted", "L": float(problem.L),
            "point_error": point_error,
        }  # fmt: skip

    def take_steps(self, count: int, indices: Array) -> int:
        """Take ``count`` steps and return how many succeeded.

        ``indices`` are (count, batch) samples, or (0, batch) for those of the seed's stream.
        """
        configuration, first, known = self._configuration, self._steps, self._known
        rows = count if configuration.scheduled else 1
        recorded = int(np.searchsorted(self._grid, first + 1))
        ahead = numbers_of(rows, "least", "most", "weight")
        ahead["least"], ahead["most"] = configuration.step_bounds(known["L"], first, rows)
        if known["weighted"]:
            least, _ = configuration.step_bounds(known["L"], first + 1, rows)
            ahead["weight"] = configuration.parameters(first + 1, rows).lr * least
        scene = Scene(
            first, count, *configuration.parameters(first, rows), self._grid[recorded:],
            ahead=ahead, **known,
        )  # fmt: skip
        done = self._loop(self.data, self.state, scene, indices, self.out[recorded:])
        self._steps += int(done)
        return int(done)


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
    may_stop: bool = False,
    **options: Any,
) -> Trajectories:
    """Run a method from several seeds and record its metrics.

    Each seed has its own stream of samples, so that neither the number of threads nor the other
    seeds change a run.

    Args:
        problem: one with kernels: least squares, the cosine problem or sparse logistic regression.
        method: the name of a method, see ``heavystep methods``, or what
            :func:`heavystep.lab.simulation.configure` made of one.
        seeds: how many runs, or the seed of each.
        iterations: steps of each run.
        grid: numbers of steps after which metrics are recorded; default :func:`log_grid`.
        batch_size: terms sampled at each step, with replacement.
        indices: (seeds, iterations, batch_size) samples in place of the streams.
        threads: how many runs at once; default: all cores.
        progress: called with the number of steps done since the last call.
        may_stop: a run that diverges is no error: what it would have recorded is NaN.
        options: what ``configure`` takes besides the name of a method: the options of its
            optimizer, of which ``lr``, ``momentum`` and ``max_step`` may be schedules, and
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
    if isinstance(method, str):
        method = configure(method, **options)
    elif not isinstance(method, Configuration):
        raise TypeError(f"method must be the name of a method, such as 'SHBPolyak', got {method!r}")
    elif options:
        raise TypeError(
            f"options ({', '.join(options)}) go with the name of a method; a Configuration has its "
            "own"
        )
    counts = {"iterations": iterations, "batch_size": batch_size}
    if isinstance(seeds, int):
        counts["seeds"], seeds = seeds, range(seeds)
    if threads is not None:
        counts["threads"] = threads
    for name, count in counts.items():
        validation.integer(name, count, least=1)
    if not len(seeds):
        raise ValueError("seeds must name at least one run, got none")
    k = log_grid(iterations) if grid is None else _whole_grid(grid, iterations)
    if indices is not None:
        indices = _readable(indices, (len(seeds), iterations, batch_size), problem.n)

    def go(place: int) -> Array:
        run = OneRun(problem, method, seeds[place], k, batch_size)
        for first in range(0, iterations, CHUNK):
            count = min(CHUNK, iterations - first)
            part = np.empty((0, batch_size), dtype=np.int64)
            if indices is not None:
                part = np.ascontiguousarray(indices[place, first : first + count])
            done = run.take_steps(count, part)
            progress(count)
            if done < count and may_stop:
                break
            if done < count:
                raise ValueError(
                    f"seed {seeds[place]} stopped at step {first + done}: loss or gradient not "
                    "finite, or no trial step accepted"
                )
        return run.out

    workers = min(threads or os.cpu_count() or 1, len(seeds))
    with ThreadPoolExecutor(workers) as pool:
        stacked = np.stack(list((map if workers == 1 else pool.map)(go, range(len(seeds)))))
    metrics = {name: stacked[name].copy() for name in metric_names(problem)}
    return Trajectories(k, tuple(seeds), metrics)


def _whole_grid(grid: Any, iterations: int) -> Array:
    k = np.asarray(grid)
    whole = np.issubdtype(k.dtype, np.integer) and k.ndim == 1 and k.size
    if not whole or k[0] < 1 or k[-1] > iterations or (np.diff(k) <= 0).any():
        raise ValueError(f"grid must increase within 1 .. {iterations}, got {grid!r}")
    return k.astype(np.int64)


def _readable(indices: Any, wanted: tuple[int, ...], n: int) -> Array:
    """Samples that kernels can read: they check nothing themselves."""
    indices = np.asarray(indices)
    if indices.shape != wanted or not np.issubdtype(indices.dtype, np.integer):
        got = f"{indices.dtype} {indices.shape}"
        raise ValueError(f"indices must be whole numbers of shape {wanted}, got {got}")
    if indices.min() < 0 or indices.max() >= n:
        got = f"{indices.min()} .. {indices.max()}"
        raise ValueError(f"indices must be in 0 .. {n - 1}, got {got}")
    found: Array = indices
    return found
