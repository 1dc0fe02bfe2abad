"""Many seeds of one method on one problem: metrics on a grid, in threads."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from heavystep import validation
from heavystep.arrays import Array
from heavystep.engine.checks import (
    EPS,
    MAX_TRIALS,
    check_rule,
    check_schedule,
    checked_samples,
    schedule_values,
)
from heavystep.engine.kernel_cache import COMPILES
from heavystep.engine.streams import stream_key
from heavystep.engine.terms import terms_of
from heavystep.engine.trajectory import (
    METRICS,
    ROUNDINGS,
    ArmijoRule,
    Parameters,
    PolyakRule,
    Scene,
    State,
    advance,
)
from heavystep.problems import FiniteSum
from heavystep.rules import SCALINGS, kappa
from heavystep.schedules import PowerLaw
from heavystep.theory.step_bounds import smallest_step

CHUNK = 1 << 16
Schedule = float | PowerLaw


@dataclass(frozen=True)
class Method:
    """Stochastic heavy ball with one of the two rules; schedules where there are power laws."""

    rule: str
    beta: Schedule
    c: float
    gamma_max: Schedule
    omega: float | None = None
    eta: Schedule = 1.0
    scaling: str = "theory"
    average: str = "uniform"
    """``"uniform"``: theta_0 .. theta_{k-1} (Theorem 2); ``"weighted"``: theta_1 .. theta_k with
    weights eta_m gamma_min,m (Theorem 6)."""

    def __post_init__(self) -> None:
        check_rule(self.rule, c=self.c, omega=self.omega)
        check_schedule("beta", self.beta, validation.UNIT)
        check_schedule("gamma_max", self.gamma_max, validation.POSITIVE)
        check_schedule("eta", self.eta, validation.NON_NEGATIVE)
        validation.choice("scaling", self.scaling, SCALINGS)
        validation.choice("average", self.average, ("uniform", "weighted"))


@dataclass(frozen=True)
class Trajectories:
    """Metrics of several runs on one grid."""

    k: Array
    """(G,) numbers of steps."""
    seeds: tuple[int, ...]
    metrics: dict[str, Array]
    """Each of :data:`METRICS`, (seeds, G)."""


def log_grid(iterations: int, points: int = 200) -> Array:
    """About ``points`` whole numbers from 1 to ``iterations``, evenly spaced on a log axis.

    >>> log_grid(1000, 4).tolist()
    [1, 10, 100, 1000]
    """
    exact = np.logspace(0.0, np.log10(iterations), points)
    return np.unique(np.rint(exact).astype(np.int64))


def trajectories(
    problem: FiniteSum,
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
        problem: a finite sum with kernels.
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
    if not COMPILES:
        raise ValueError("trajectories are compiled by numba: unset NUMBA_DISABLE_JIT")
    terms, rule = terms_of(problem), _rule(method)
    runs = [_Run(problem, seed, grid) for seed in seeds]
    empty = np.empty((0, batch_size), dtype=np.int64)

    def go(run: int, first: int, parameters: Parameters) -> None:
        part = empty if indices is None else indices[run, first : first + len(parameters.cap)]
        done = runs[run].advance(terms, rule, parameters, first, part)
        if done < len(parameters.cap):
            raise ValueError(
                f"seed {seeds[run]} stopped at step {first + done}: loss or gradient not finite, "
                "or no trial step accepted"
            )
        progress(done)

    with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        for first in range(0, iterations, CHUNK):
            parameters = _parameters(problem, method, first, min(CHUNK, iterations - first))
            for _ in pool.map(lambda r: go(r, first, parameters), range(len(runs))):  # noqa: B023
                pass
    stacked = np.stack([run.out for run in runs])
    columns = {name: stacked[:, :, column] for column, name in enumerate(METRICS)}
    return Trajectories(grid, tuple(seeds), columns)


def _checked_grid(grid: Array, iterations: int) -> Array:
    counts = np.asarray(grid)
    whole = np.issubdtype(counts.dtype, np.integer) and counts.ndim == 1 and counts.size
    if not whole or counts[0] < 1 or counts[-1] > iterations or (np.diff(counts) <= 0).any():
        raise ValueError(f"grid must increase within 1 .. {iterations}, got {grid!r}")
    return counts.astype(np.int64)


class _Run:
    """One seed's state and records."""

    def __init__(self, problem: FiniteSum, seed: int, grid: Array) -> None:
        dim = problem.dim
        numbers = np.array([0.0, inf, inf, inf, 0.0, 0.0])
        self.state = State(np.array(problem.theta0), np.zeros(dim), np.zeros(dim), numbers)
        size = np.linalg.norm(problem.theta0) + np.linalg.norm(problem.theta_star)
        self.scene = Scene(grid, stream_key(seed), ROUNDINGS * EPS * float(size), problem.L)
        self.out = np.full((len(grid), len(METRICS)), np.nan)

    def advance(self, terms: Any, rule: Any, parameters: Any, first: int, indices: Any) -> int:
        return int(
            advance(terms, rule, parameters, self.state, self.scene, first, indices, self.out)
        )


def _rule(method: Method) -> PolyakRule | ArmijoRule:
    if method.omega is None:
        return PolyakRule(method.c)
    return ArmijoRule(method.c, method.omega, MAX_TRIALS)


def _parameters(problem: FiniteSum, method: Method, first: int, count: int) -> Parameters:
    """The schedules for the steps first .. first + count - 1."""
    k = np.arange(first, first + count)
    now, eta = _Caps(problem, method, k), schedule_values(method.eta, k)
    weight = np.empty(0)
    if method.average == "weighted":
        weight = schedule_values(method.eta, k + 1) * _Caps(problem, method, k + 1).least
    return Parameters(now.kappa, now.cap, eta, now.beta, now.least, weight)


class _Caps:
    """Momentum, scaling and step bounds before the multiplier, at the steps k."""

    def __init__(self, problem: FiniteSum, method: Method, k: Array) -> None:
        self.beta, self.cap = schedule_values(method.beta, k), schedule_values(method.gamma_max, k)
        self.kappa = schedule_values(kappa(method.scaling, self.beta), k)
        self.least = smallest_step(
            method.rule,
            L=problem.L,
            c=method.c,
            omega=method.omega,
            kappa=self.kappa,
            cap=self.cap,
        )
