"""The paper's rules as loops that somebody would write in numba: what the simulation is held to.

Each is one function for one problem. It draws the same samples, takes the same steps, and keeps no
more than what the figures show: the mean of the iterates, or nothing.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from heavystep.lab.simulation.compiling import kernel
from heavystep.lab.simulation.configuration import Configuration
from heavystep.lab.simulation.problems import random_index, stream_key
from heavystep.problems import LeastSquares

SLACK = 4.0 * float(np.finfo(np.float64).eps)
"""Losses are compared with this relative tolerance, as line searches do."""


class Constants(NamedTuple):
    """The constants of a rule; omega of the line search is 0 for the Polyak step."""

    c: float
    kappa: float
    growth: float
    max_step: float
    omega: float
    beta: float


def literal_run(problem: Any, method: Configuration, seed: int, steps: int, size: int = 1) -> Any:
    """The last iterate of a run, by the loop for this kind of problem.

    Args:
        problem: least squares, or sparse logistic regression.
        method: SHBPolyak or SHBArmijo without schedules.
        seed: of the samples.
        steps: how many.
        size: of the batches, for logistic regression only.
    """
    names = getattr(method.rule.Constants, "_fields")  # noqa: B009
    table = method.parameters(0, 1)
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
