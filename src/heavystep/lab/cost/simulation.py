"""Cost of an iteration: the simulation against a literal loop, and growth with the size.

A literal loop is what somebody would write in numba. It draws the same samples, takes the same
steps, and keeps no more than what the figures show: the mean of the iterates, or nothing.
"""

import math
import tracemalloc
from functools import partial
from typing import Any, NamedTuple

import numba
import numpy as np
from scipy.sparse import csr_array

from heavystep.lab.cost.networks import Job, shortest
from heavystep.lab.data import unit_length
from heavystep.lab.simulation import Configuration, configure, simulate
from heavystep.lab.simulation.compiling import part
from heavystep.lab.simulation.problems import LogisticData, kernels_of, random_index, stream_key
from heavystep.problems import Cosine, LeastSquares, SparseLogistic, paper_least_squares

STEPS, SEEDS, BATCH = 20_000, 20, 128
GAUGE = 1_000_000  # numbers that a measurement of growth goes through
SIZES = (
    *((d, 500, 1, 1) for d in (10, 100, 1000, 10_000)),
    *((100, n, 1, 1) for n in (50, 5000, 50_000)),
    *((100, 500, batch, 1) for batch in (10, 100)),
    *((20, 500, 1, seeds) for seeds in (1, 20)),
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
    """Cost of runs on the cosine problem of one size: of a step of one seed, and of all memory."""

    d: int
    n: int
    batch: int
    seeds: int
    nanoseconds: float
    megabytes: float


def literal_run(problem: Any, method: Configuration, steps: int, size: int = 1) -> Any:
    """The last iterate of a seed of SHBPolyak or SHBArmijo, by the literal loop."""
    known = {**dict(method.options), **method.rule.resolve(dict(method.options))}
    names = ("c", "kappa", "growth_factor", "max_step", "decrease_factor", "momentum")
    rule, theta = tuple(float(known.get(name, 0.0)) for name in names), np.array(problem.theta0)
    loss, gradient = LITERAL[type(problem)]
    kernels, shared = kernels_of(problem)
    data = kernels.data(shared, 1)
    averages = not isinstance(data, LogisticData)
    _loop(loss, gradient, data, theta, rule, stream_key(0), problem.n, steps, size, averages)
    return theta


@numba.njit(nogil=True, error_model="numpy")
def _loop(
    loss_of: Any, gradient_of: Any, data: Any, theta: Any, rule: Any, key: Any, n: Any,
    steps: Any, size: Any, averages: Any,
) -> Any:  # fmt: skip
    c, kappa, growth, max_step, omega, beta = rule
    d, last, batch = theta.shape[0], np.inf, np.zeros(size, np.int64)
    g, displacement, mean = np.zeros(d), np.zeros(d), np.zeros(d)
    for k in range(steps):
        low, square = 0.0, 0.0
        for b in range(size):
            batch[b] = random_index(key, k * size + b, n)
            low += data.f_star[batch[b]] / size
        if averages:
            share = 1.0 / (k + 1)
            for j in range(d):
                mean[j] += share * (theta[j] - mean[j])
        f = gradient_of(data, batch, theta, g)
        for j in range(d):
            square += g[j] * g[j]
        cap = min(growth * last, max_step)
        if square == 0.0 or f <= low:
            step = 0.0
        elif omega == 0.0:
            step = min(kappa * (f - low) / (c * square), cap)
        else:
            t = cap / kappa
            while True:
                least = f - c * t * square + SLACK * f
                if least >= low and loss_of(data, batch, theta, g, t) <= least:
                    break
                t *= omega
            step = kappa * t
        last = step if step > 0.0 else last
        for j in range(d):
            displacement[j] = beta * displacement[j] - step * g[j]
            theta[j] += displacement[j]
    return mean


@part
def _squares_loss(data: Any, batch: Any, theta: Any, g: Any, t: Any) -> Any:
    residual = -data.b[batch[0]]
    for j in range(theta.shape[0]):
        residual += data.A[batch[0], j] * (theta[j] - t * g[j])
    return 0.5 * residual * residual


@part
def _squares_gradient(data: Any, batch: Any, theta: Any, g: Any) -> Any:
    residual = -data.b[batch[0]]
    for j in range(theta.shape[0]):
        residual += data.A[batch[0], j] * theta[j]
    for j in range(theta.shape[0]):
        g[j] = residual * data.A[batch[0], j]
    return 0.5 * residual * residual


@part
def _margin(data: Any, i: Any, theta: Any, g: Any, t: Any) -> Any:
    total = 0.0
    for p in range(data.indptr[i], data.indptr[i + 1]):
        total += data.values[p] * (theta[data.indices[p]] - t * g[data.indices[p]])
    return total


@part
def _logistic_loss(data: Any, batch: Any, theta: Any, g: Any, t: Any) -> Any:
    loss = 0.0
    for i in batch:
        loss += math.log1p(math.exp(-_margin(data, i, theta, g, t))) / batch.shape[0]
    return loss


@part
def _logistic_gradient(data: Any, batch: Any, theta: Any, g: Any) -> Any:
    loss, size = 0.0, batch.shape[0]
    g[:] = 0.0
    for i in batch:
        m = _margin(data, i, theta, theta, 0.0)
        loss += math.log1p(math.exp(-m)) / size
        slope = -1.0 / (1.0 + math.exp(m)) / size
        for p in range(data.indptr[i], data.indptr[i + 1]):
            g[data.indices[p]] += slope * data.values[p]
    return loss


LITERAL: dict[Any, Any] = {LeastSquares: (_squares_loss, _squares_gradient),
           SparseLogistic: (_logistic_loss, _logistic_gradient)}  # fmt: skip


def sparse_problem() -> SparseLogistic:
    """Rows of unit length with about twelve entries, like those of the smaller LIBSVM sets."""
    draw = np.random.default_rng(0)
    rows = draw.standard_normal((5000, 120)) * (draw.random((5000, 120)) < 0.1)
    labels = np.where(rows @ draw.standard_normal(120) + draw.standard_normal(5000) > 0, 1.0, -1.0)
    return SparseLogistic(unit_length(csr_array(rows)), labels)


def cases() -> dict[str, tuple[Any, Configuration, int, int]]:
    """Problem, method, steps and batch by name: both rules of the paper on two problems."""
    squares, logistic = paper_least_squares(0.3), sparse_problem()
    practical: dict[str, Any] = {"scaling": "practical", "max_step": 100.0, "steps_per_epoch": 40}
    found: dict[str, tuple[Any, Configuration, int, int]] = {}
    for name, c in (("SHBPolyak", 0.75), ("SHBArmijo", 0.5)):
        theory = configure(name, momentum=0.9, scaling="theory", c=c)
        found[f"least squares, {name}"] = (squares, theory, STEPS, 1)
        method = configure(name, momentum=0.9, **practical)
        found[f"logistic, batches of {BATCH}, {name}"] = (logistic, method, STEPS // 20, BATCH)
    return found


def simulation_costs(turns: int, share: float) -> list[Cost]:
    """The literal loop, the simulation of one seed and of many on one core, in turns.

    ``turns`` is how often each is timed, with a ``share`` of the usual steps; the shortest counts.
    """
    rows = []
    for name, (problem, method, usual, batch) in cases().items():
        steps = max(int(usual * share), 10)
        simulated = partial(
            simulate, problem, method, iterations=steps, batch_size=batch, grid=np.array([steps]),
            threads=1,
        )  # fmt: skip
        jobs: dict[str, Job] = {
            "literal loop": partial(literal_run, problem, method, steps, batch),
            "one seed": partial(simulated, seeds=1),
            f"{SEEDS} seeds": partial(simulated, seeds=SEEDS),
        }
        times = shortest(jobs, turns + 1)  # the first compiles, or loads what was compiled
        times[f"{SEEDS} seeds"] /= SEEDS
        base = times["literal loop"]
        rows += [Cost(f"{name}: {what}", time / steps * 1e9, time / base)
                 for what, time in times.items()]  # fmt: skip
    return rows


def growth_costs(turns: int, share: float) -> list[Growth]:
    """All sizes, each timed ``turns`` times."""
    method, rows = configure("SHBPolyak", c=0.75, scaling="theory"), []
    for d, n, batch, seeds in SIZES:
        steps, draw = max(100, int(GAUGE * share) // (d * batch * seeds)), np.random.default_rng(d)
        tracemalloc.start()
        tilts = draw.standard_normal((n, d))
        problem = Cosine(draw.uniform(0.5, 1.5, n), tilts - tilts.mean(axis=0))
        simulated = partial(
            simulate, problem, method, seeds=seeds, iterations=steps, grid=np.array([steps]),
            batch_size=batch, threads=1,
        )  # fmt: skip
        simulated()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        time = shortest({"all": simulated}, turns)["all"] / (steps * seeds)
        rows.append(Growth(d, n, batch, seeds, time * 1e9, peak / 1e6))
    return rows
