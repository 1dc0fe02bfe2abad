"""The heavy-ball iteration as one kernel, for every problem and both rules."""

import math
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from heavystep.arrays import Array
from heavystep.engine import numba_rules as numba_rules
from heavystep.engine.checks import EPS
from heavystep.engine.kernel_cache import kernel
from heavystep.engine.streams import random_index
from heavystep.engine.terms import dot, evaluate, full_sqnorm, objective_gap, trial_loss
from heavystep.rules import (
    ArmijoTest,
    armijo_advance,
    armijo_start,
    batch_is_finite,
    polyak_step,
    skip_impossible,
)

TINY = float(np.finfo(np.float64).tiny)
ROUNDINGS = 64.0
BLUR = 1e-6
"""A step bound is looked at where rounding of the loss moves the step by less than this part."""
METRICS = (
    "gap_average",
    "gap_last",
    "best",
    "best_after",
    "grad_last",
    "lowest",
    "highest",
    "trials",
)
"""What is recorded at each point of the grid, after k steps."""


class PolyakRule(NamedTuple):
    """Constants of the Polyak rule."""

    c: float


class ArmijoRule(NamedTuple):
    """Constants of the line search."""

    c: float
    omega: float
    max_trials: int


class Parameters(NamedTuple):
    """What may change from step to step, for the steps of one call."""

    kappa: Array
    cap: Array
    eta: Array
    beta: Array
    least: Array
    """gamma_min,k of Lemmas 2 and 5."""
    weight: Array
    """Weight of theta_{k+1} in the average; empty: uniform average of theta_0 .. theta_k."""


class State(NamedTuple):
    """What a run carries from call to call."""

    theta: Array
    displacement: Array
    average: Array
    numbers: Array
    """Sum of weights, best, best_after, lowest, highest, trials."""


class Scene(NamedTuple):
    """What stays fixed."""

    grid: Array
    """Steps after which metrics are recorded, increasing."""
    key: Any
    """The seed's stream."""
    point_error: float
    """Rounding of a point, for the step bounds."""
    L: float


def choose(rule: Any, terms: Any, theta: Any, g: Any, batch: Any, seen: Any, limits: Any) -> Any:
    """The step before its multiplier, the trials, and whether there is a step at all.

    ``seen`` is loss, lower bound and squared norm, ``limits`` kappa and the cap.
    """
    raise NotImplementedError


def _polyak(rule: Any, terms: Any, theta: Any, g: Any, batch: Any, seen: Any, limits: Any) -> Any:
    loss, low, sqnorm = seen
    kappa, cap = limits
    return polyak_step(loss, sqnorm, low, rule.c, kappa, cap), 0, True


def _armijo(rule: Any, terms: Any, theta: Any, g: Any, batch: Any, seen: Any, limits: Any) -> Any:
    loss, low, sqnorm = seen
    kappa, cap = limits
    test = ArmijoTest(loss, sqnorm, low, rule.c, rule.omega, rule.max_trials, EPS)
    search = skip_impossible(test, armijo_start(test, cap / kappa))
    while search.active:
        value = trial_loss(terms, theta, g, search.trial, batch)
        search = armijo_advance(test, search, value)
    return kappa * search.trial, search.trials, search.accepted


_RULES = {PolyakRule: _polyak, ArmijoRule: _armijo}
overload(choose, strict=False)(lambda rule, *others: _RULES[rule.instance_class])


@kernel
def advance(
    terms: Any,
    rule: Any,
    parameters: Any,
    state: Any,
    scene: Any,
    first: int,
    indices: Any,
    out: Any,
) -> int:
    """Take one step for each entry of ``parameters``; ``first`` is the number of the first.

    ``indices`` are (steps, batch) samples; a first axis of 0 draws them from the stream. Metrics
    go to the row of ``out`` that belongs to their k. Returns the number of steps taken: fewer
    than asked for if a loss or gradient is not finite, or if no trial was accepted.
    """
    theta, displacement, average, numbers = state
    dim, n = theta.shape[0], terms.f_star.shape[0]
    g = np.empty(dim)
    batch = np.empty(indices.shape[1], dtype=np.int64)
    row = np.searchsorted(scene.grid, first + 1)
    uniform = parameters.weight.shape[0] == 0
    for step in range(parameters.cap.shape[0]):
        k = first + step
        for b in range(batch.shape[0]):
            if indices.shape[0] > 0:
                batch[b] = indices[step, b]
            else:
                batch[b] = random_index(scene.key, k * batch.shape[0] + b, n)
        loss, low, full = evaluate(terms, theta, batch, g)
        sqnorm = dot(g, g)
        if not batch_is_finite(loss, sqnorm):
            return step
        if full < numbers[1]:
            numbers[1] = full
        if full < numbers[2] and k > 0:
            numbers[2] = full
        if uniform:
            _include(average, numbers, theta, 1.0)
        limits = (parameters.kappa[step], parameters.cap[step])
        seen = (loss, low, sqnorm)
        base, trials, accepted = choose(rule, terms, theta, g, batch, seen, limits)
        if not accepted:
            return step
        numbers[5] += trials
        _compare(numbers, base, limits[1], parameters.least[step], seen, scene)
        _move(theta, displacement, g, parameters.eta[step] * base, parameters.beta[step])
        if not uniform:
            _include(average, numbers, theta, parameters.weight[step])
        if row < scene.grid.shape[0] and scene.grid[row] == k + 1:
            _record(out[row], terms, state)
            row += 1
    return int(parameters.cap.shape[0])


@kernel
def _include(average: Any, numbers: Any, point: Any, weight: Any) -> None:
    """One more point in the running average, by its difference from it."""
    numbers[0] += weight
    share = weight / numbers[0]
    for j in range(point.shape[0]):
        average[j] += share * (point[j] - average[j])


@kernel
def _move(theta: Any, displacement: Any, g: Any, gamma: Any, beta: Any) -> None:
    """theta_{k+1} = theta_k - gamma g + beta (theta_k - theta_{k-1}), the displacement first."""
    for j in range(theta.shape[0]):
        motion = beta * displacement[j] - gamma * g[j]
        # Momentum alone would go through all subnormal numbers, which are slow.
        displacement[j] = motion if abs(motion) > TINY else 0.0
        theta[j] += displacement[j]


@kernel
def _compare(numbers: Any, base: Any, cap: Any, least: Any, seen: Any, scene: Any) -> None:
    """Smallest base step in units of gamma_min and largest in units of the cap (Lemmas 2, 5)."""
    if base > numbers[4] * cap:
        numbers[4] = base / cap
    if base < numbers[3] * least:
        loss, low, sqnorm = seen
        error = ROUNDINGS * EPS * (abs(loss) + abs(low)) + TINY
        error += scene.point_error * (math.sqrt(sqnorm) + scene.L * scene.point_error)
        if sqnorm > 0.0 and error < BLUR * min(loss - low, least * sqnorm):
            numbers[3] = base / least


@kernel
def _record(out: Any, terms: Any, state: Any) -> None:
    theta, _, average, numbers = state
    last = full_sqnorm(terms, theta)
    out[0] = objective_gap(terms, average)
    out[1] = objective_gap(terms, theta)
    out[2] = numbers[1]
    out[3] = min(numbers[2], last)
    out[4] = last
    out[5], out[6], out[7] = numbers[3], numbers[4], numbers[5]
