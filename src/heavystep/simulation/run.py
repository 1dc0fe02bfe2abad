"""Many seeds of one method on one problem: metrics on a grid, in threads."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from heavystep import validation
from heavystep.arrays import Array
from heavystep.methods import BETA2, DIAGONAL_EPS
from heavystep.problems import FiniteSum, SparseLogistic, VarianceReduced
from heavystep.problems.variance_reduced import original
from heavystep.records import Trajectories
from heavystep.simulation.checks import checked_samples
from heavystep.simulation.choice import kernel_rule
from heavystep.simulation.configuration import Configuration, configure
from heavystep.simulation.forms import kernel_form
from heavystep.simulation.kernel_cache import COMPILES, kernel
from heavystep.simulation.layout import terms_of
from heavystep.simulation.streams import stream_key
from heavystep.simulation.stretching import kernel_diagonal
from heavystep.simulation.terms import objective
from heavystep.simulation.trajectory import Kinds, Scene, State, advance
from heavystep.simulation.watch import (
    THEORY_METRICS,
    TRAINING_METRICS,
    MeanWatch,
    TheoryWatch,
    TrainingWatch,
)

CHUNK = 1 << 16
"""Steps between two reports of progress."""
Problem = FiniteSum | SparseLogistic | VarianceReduced


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
    if isinstance(seeds, int):
        validation.integer("seeds", seeds, least=1)
        seeds = range(seeds)
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
    runs = [Run(problem, configuration, seed, grid) for seed in seeds]
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


def metric_names(problem: Problem) -> tuple[str, ...]:
    """What is recorded of a problem's runs."""
    return TRAINING_METRICS if isinstance(original(problem), SparseLogistic) else THEORY_METRICS


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

    def __init__(
        self, problem: Problem, configuration: Configuration, seed: int, grid: Array
    ) -> None:
        self.terms = terms_of(problem)
        self.configuration = configuration
        theta = np.array(problem.theta0)
        self.state = State(
            theta,
            np.zeros_like(theta),
            _memory(configuration, {}),
            *_averages(configuration, theta),
        )
        self.scene = Scene(
            grid, stream_key(seed), problem.n, configuration.loss_eps, _diagonal(configuration),
            *_batches(configuration),
        )  # fmt: skip
        self.watch: TheoryWatch | TrainingWatch | MeanWatch
        if isinstance(measured := original(problem), SparseLogistic):
            self.watch = TrainingWatch.empty()
        else:
            self.watch = TheoryWatch.of(measured, float(problem.L), configuration)
        self.out = np.full((len(grid), len(metric_names(problem))), np.nan)
        self.steps = 0

    def advance(self, count: int, indices: Any) -> int:
        """Take ``count`` steps and return how many succeeded.

        Args:
            count: how many.
            indices: (count, batch) samples, or (0, batch) for those of the seed's stream.
        """
        configuration = self.configuration
        done = advance(
            self.terms,
            Kinds(
                kernel_rule(configuration.rule),
                kernel_form(configuration.form),
                kernel_diagonal(configuration.diagonal),
            ),
            self.watch.prepare(configuration, self.steps, count),
            configuration.parameters(self.steps, count),
            self.state,
            self.scene,
            self.steps,
            indices,
            self.out,
        )
        self.steps += int(done)
        return int(done)

    def change(self, configuration: Configuration) -> None:
        """Go on with another configuration from where the run is.

        What both rules remember under the same name is taken over, and so is the diagonal.
        """
        before = dict(zip(self.configuration.rule.memory, self.state.memory, strict=True))
        self.state = self.state._replace(memory=_memory(configuration, before))
        if configuration.diagonal is not self.configuration.diagonal:
            squares, weight = _averages(configuration, self.state.theta)
            self.state = self.state._replace(squares=squares, weight=weight)
        kept, overlap = _batches(configuration)
        self.scene = self.scene._replace(
            loss_eps=configuration.loss_eps, diagonal=_diagonal(configuration), kept=kept,
            overlap=overlap,
        )  # fmt: skip
        self.configuration = configuration


def _memory(configuration: Configuration, known: dict[str, Any]) -> Array:
    """The rule's memory as an array: what is known of it, and first values for the rest."""
    first = configuration.rule.memory
    return np.array([known.get(name, value) for name, value in first.items()], dtype=np.float64)


def _averages(configuration: Configuration, theta: Array) -> tuple[Array, Array]:
    """The state of the diagonal; empty without one."""
    size = 0 if configuration.diagonal is None else len(theta)
    return np.zeros(size, theta.dtype), np.zeros(min(size, 1))


def _diagonal(configuration: Configuration) -> Array:
    """The numbers of the diagonal; none without one."""
    names = () if configuration.diagonal is None else (BETA2.name, DIAGONAL_EPS.name)
    return np.array([configuration[name] for name in names], dtype=np.float64)


def _batches(configuration: Configuration) -> tuple[int, bool]:
    """For how many steps a batch is kept, and whether it shares a half with the one before."""
    kept_for, overlap = configuration.rule.batches
    return (int(configuration[kept_for]) if kept_for else 1), overlap
