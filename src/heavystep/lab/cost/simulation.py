"""What an iteration costs: the simulation against a literal loop, and how costs grow.

A literal loop is what somebody would write in numba: one function for one problem. It draws the
same samples, takes the same steps, and keeps no more than what the figures show: the mean of the
iterates, or nothing.
"""

import math
import tracemalloc
from collections.abc import Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from heavystep.lab.cost.networks import Job, shortest
from heavystep.lab.simulation import Configuration, configure, simulate
from heavystep.lab.simulation.compiling import kernel
from heavystep.lab.simulation.problems import random_index, stream_key
from heavystep.methods import method_of
from heavystep.problems import Cosine, LeastSquares, SparseLogistic, paper_least_squares
from heavystep.sparse import SparseRows

STEPS, SEEDS, BATCH, TURNS = 20_000, 20, 128, 25
"""Of a measurement: many short ones, of which the shortest counts."""
GAUGE = 1_000_000  # numbers that a measurement of growth goes through
SIZES = (
    *((d, 500, 1, 1) for d in (10, 100, 1000, 10_000)),
    *((100, n, 1, 1) for n in (50, 5000, 50_000)),
    *((100, 500, batch, 1) for batch in (10, 100)),
    *((20, 500, 1, seeds) for seeds in (1, 4, 20)),
)
"""Parameters d, terms n, batch and seeds."""
SLACK = 4.0 * float(np.finfo(np.float64).eps)
"""Losses are compared with this relative tolerance, as line searches do."""


class Cost(NamedTuple):
    """Nanoseconds for an iteration of one seed, and the ratio to the literal loop."""

    what: str
    nanoseconds: float
    ratio: float


class Growth(NamedTuple):
    """What runs cost on the cosine problem of one size.

    Args:
        nanoseconds: of a step of one seed.
        each: that for each number of the batch, equal for all sizes if costs are linear.
        megabytes: the peak memory of problem and runs.
        copies: that in units of the numbers that the problem is made of.
    """

    dim: int
    terms: int
    batch: int
    seeds: int
    nanoseconds: float
    each: float
    megabytes: float
    copies: float


class Constants(NamedTuple):
    """The constants of a rule; omega of the line search is 0 for the Polyak step."""

    c: float
    kappa: float
    growth: float
    max_step: float
    omega: float
    beta: float


def literal_run(problem: Any, method: Configuration, seed: int, steps: int, size: int = 1) -> Any:
    """The last iterate of SHBPolyak or SHBArmijo, without schedules, by the loop for the problem.

    ``size`` is that of the batches, for logistic regression only.
    """
    table = method.parameters(0, 1)
    names = getattr(method.rule.Constants, "_fields")  # noqa: B009
    known = dict(zip(names, map(float, table.constants[0]), strict=True))
    rule = Constants(
        known["c"], known["kappa"], known["growth_factor"], known["max_step"],
        known.get("decrease_factor", 0.0), float(table.momentum[0]),
    )  # fmt: skip
    key, theta = stream_key(seed), np.array(problem.theta0)
    if isinstance(problem, LeastSquares):
        matrix, b, low = map(np.array, (problem.A, problem.b, problem.f_star))
        _least_squares(matrix, b, low, theta, rule, key, steps)
    else:
        rows = problem.rows
        values = rows.values * problem.y[rows.row_of_entries()]
        _logistic(rows.indptr, rows.indices, values, problem.f_star, theta, rule, key, steps, size)
    return theta


@kernel
def _move(theta: Any, displacement: Any, g: Any, step: Any, beta: Any) -> None:
    for j in range(theta.shape[0]):
        displacement[j] = beta * displacement[j] - step * g[j]
        theta[j] += displacement[j]


@kernel
def _least_squares(
    rows: Any, b: Any, f_star: Any, theta: Any, rule: Any, key: Any, steps: Any
) -> Any:
    n, d = rows.shape
    g, displacement, mean, last = np.zeros(d), np.zeros(d), np.zeros(d), np.inf
    for k in range(steps):
        i = random_index(key, k, n)
        residual, square, share = -b[i], 0.0, 1.0 / (k + 1)
        for j in range(d):
            mean[j] += share * (theta[j] - mean[j])
            residual += rows[i, j] * theta[j]
        for j in range(d):
            g[j] = residual * rows[i, j]
            square += g[j] * g[j]
        f, cap = 0.5 * residual * residual, min(rule.growth * last, rule.max_step)
        if square == 0.0 or f <= f_star[i]:
            step = 0.0
        elif rule.omega == 0.0:
            step = min(rule.kappa * (f - f_star[i]) / (rule.c * square), cap)
        else:
            t, enough = cap / rule.kappa, False
            while not enough:
                least = f - rule.c * t * square + SLACK * f
                if least >= f_star[i]:
                    moved = -b[i]
                    for j in range(d):
                        moved += rows[i, j] * (theta[j] - t * g[j])
                    enough = 0.5 * moved * moved <= least
                t = t if enough else t * rule.omega
            step = rule.kappa * t
        last = step if step > 0.0 else last
        _move(theta, displacement, g, step, rule.beta)
    return mean


@kernel
def _margin(indptr: Any, indices: Any, values: Any, i: Any, theta: Any, g: Any, t: Any) -> Any:
    total = 0.0
    for p in range(indptr[i], indptr[i + 1]):
        total += values[p] * (theta[indices[p]] - t * g[indices[p]])
    return total


@kernel
def _logistic(
    indptr: Any, indices: Any, values: Any, f_star: Any, theta: Any, rule: Any, key: Any,
    steps: Any, size: Any,
) -> None:  # fmt: skip
    n, d = indptr.shape[0] - 1, theta.shape[0]
    g, displacement, last = np.zeros(d), np.zeros(d), np.inf
    for k in range(steps):
        f, low, square = 0.0, 0.0, 0.0
        g[:] = 0.0
        for b in range(size):
            i = random_index(key, k * size + b, n)
            m = _margin(indptr, indices, values, i, theta, theta, 0.0)
            f += math.log1p(math.exp(-m)) / size
            low += f_star[i] / size
            slope = -1.0 / (1.0 + math.exp(m)) / size
            for p in range(indptr[i], indptr[i + 1]):
                g[indices[p]] += slope * values[p]
        for j in range(d):
            square += g[j] * g[j]
        cap = min(rule.growth * last, rule.max_step)
        if rule.omega == 0.0:
            step = min(rule.kappa * (f - low) / (rule.c * square), cap)
        else:
            t, enough = cap / rule.kappa, False
            while not enough:
                least, moved = f - rule.c * t * square + SLACK * f, 0.0
                for b in range(size if least >= low else 0):
                    i = random_index(key, k * size + b, n)
                    m = _margin(indptr, indices, values, i, theta, g, t)
                    moved += math.log1p(math.exp(-m)) / size
                enough = low <= least and moved <= least
                t = t if enough else t * rule.omega
            step = rule.kappa * t
        last = step if step > 0.0 else last
        _move(theta, displacement, g, step, rule.beta)


def sparse_problem() -> SparseLogistic:
    """Rows of unit length with about twelve entries, like those of the smaller LIBSVM sets."""
    draw = np.random.default_rng(0)
    rows = draw.standard_normal((5000, 120)) * (draw.random((5000, 120)) < 0.1)
    labels = np.where(rows @ draw.standard_normal(120) + draw.standard_normal(5000) > 0, 1.0, -1.0)
    return SparseLogistic(SparseRows.from_dense(rows).unit_length(), labels)


def cases() -> dict[str, tuple[Any, Configuration, int, int]]:
    """Problem, method, steps and batch by name: both rules of the paper on two problems."""
    found: dict[str, tuple[Any, Configuration, int, int]] = {}
    for name, c in (("SHBPolyak", 0.75), ("SHBArmijo", 0.5)):
        theory = configure(name, momentum=0.9, scaling="theory", c=c)
        practical = configure(
            name, momentum=0.9, scaling="practical", max_step=100.0, steps_per_epoch=40
        )
        title = method_of(name).title
        found[f"least squares, {title}"] = (paper_least_squares(0.3), theory, STEPS, 1)
        label = f"logistic, batches of {BATCH}, {title}"
        found[label] = (sparse_problem(), practical, STEPS // 20, BATCH)
    return found


def _simulated(problem: Any, method: Configuration, steps: int, batch: int, seeds: int) -> Job:
    return partial(
        simulate, problem, method, seeds=seeds, iterations=steps, batch_size=batch,
        grid=np.array([steps]), threads=1,
    )  # fmt: skip


def _times(jobs: Mapping[str, Job], turns: int) -> dict[str, float]:
    for job in jobs.values():
        job()  # compiles, or loads what was compiled
    return shortest(jobs, turns)


def simulation_costs(turns: int = TURNS, share: float = 1.0) -> list[Cost]:
    """The literal loop, the simulation of one seed and of many on one core, in turns.

    Args:
        turns: how often each is timed.
        share: of the usual steps.
    """
    rows = []
    for name, (problem, method, usual, batch) in cases().items():
        steps = max(int(usual * share), 10)
        jobs: dict[str, Job] = {
            "literal loop": partial(literal_run, problem, method, 0, steps, batch),
            "one seed": _simulated(problem, method, steps, batch, 1),
            f"{SEEDS} seeds": _simulated(problem, method, steps, batch, SEEDS),
        }
        times = _times(jobs, turns)
        times[f"{SEEDS} seeds"] /= SEEDS
        base = times["literal loop"]
        rows += [Cost(f"{name}: {what}", time / steps * 1e9, time / base)
                 for what, time in times.items()]  # fmt: skip
    return rows


def _cosine(dim: int, terms: int) -> Cosine:
    draw = np.random.default_rng([dim, terms])
    tilts = draw.standard_normal((terms, dim))
    tilts -= tilts.mean(axis=0)
    return Cosine(draw.uniform(0.5, 1.5, terms), tilts)


def growth_costs(repeats: int = 3, share: float = 1.0) -> list[Growth]:
    """All sizes, in turns."""
    method, rows = configure("SHBPolyak", momentum=0.9, c=0.75, scaling="theory"), []
    jobs, steps, build = dict[str, Job](), dict[str, int](), cache(_cosine)
    for size in SIZES:
        dim, terms, batch, seeds = size
        steps[str(size)] = max(100, int(GAUGE * share) // (dim * batch * seeds))
        jobs[str(size)] = _simulated(build(dim, terms), method, steps[str(size)], batch, seeds)
    times = _times(jobs, repeats)
    for size in SIZES:
        dim, terms, batch, seeds = size
        nanoseconds = times[str(size)] / (steps[str(size)] * seeds) * 1e9
        tracemalloc.start()
        _simulated(_cosine(dim, terms), method, 100, batch, seeds)()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        copies = peak / (8 * terms * (dim + 1))
        rows.append(Growth(*size, nanoseconds, nanoseconds / (dim * batch), peak / 1e6, copies))
    return rows
