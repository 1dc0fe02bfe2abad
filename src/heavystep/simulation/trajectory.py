"""The heavy-ball iteration as one kernel, for every problem, rule and set of metrics."""

from typing import Any, NamedTuple

import numpy as np

from heavystep.arrays import Array
from heavystep.rules import batch_is_finite, remember_step, step_cap
from heavystep.simulation.choice import choose
from heavystep.simulation.kernel_cache import kernel
from heavystep.simulation.streams import random_index
from heavystep.simulation.terms import dot, evaluate, workspace
from heavystep.simulation.watch import watch_arrival, watch_point, watch_record, watch_step


class Parameters(NamedTuple):
    """What may change from step to step, for the steps of one call."""

    kappa: Array
    cap: Array
    """gamma_max,k."""
    eta: Array
    beta: Array


class State(NamedTuple):
    """What a run carries from call to call."""

    theta: Array
    displacement: Array
    last_step: Array
    """(1,) the smooth reset's memory."""


class Scene(NamedTuple):
    """What stays fixed."""

    grid: Array
    """Steps after which metrics are recorded, increasing."""
    key: Any
    """The seed's stream."""
    n: int
    """Number of terms."""
    growth: float
    """Factor by which a step may exceed the last one; infinite without smooth reset."""


@kernel
def advance(
    terms: Any,
    rule: Any,
    watch: Any,
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
    theta, displacement, last_step = state
    g = np.zeros_like(theta)
    batch = np.empty(indices.shape[1], dtype=np.int64)
    work = workspace(terms, theta, batch.shape[0])
    row = np.searchsorted(scene.grid, first + 1)
    for step in range(parameters.cap.shape[0]):
        k = first + step
        _sample(batch, indices, scene, step, k)
        loss, low, full = evaluate(terms, theta, batch, g, work)
        sqnorm = dot(g, g)
        if not batch_is_finite(loss, sqnorm):
            return step
        watch_point(watch, k, theta, full)
        cap = step_cap(last_step[0], scene.growth, parameters.cap[step])
        limits = (parameters.kappa[step], cap)
        seen = (loss, low, sqnorm)
        base, trials, accepted = choose(rule, terms, theta, g, batch, work, seen, limits)
        if not accepted:
            return step
        last_step[0] = remember_step(last_step[0], base, True)
        watch_step(watch, step, base, (parameters.cap[step], cap), trials, seen)
        _move(theta, displacement, g, parameters.eta[step] * base, parameters.beta[step])
        watch_arrival(watch, step, theta)
        if row < scene.grid.shape[0] and scene.grid[row] == k + 1:
            watch_record(watch, out[row], terms, theta)
            row += 1
    return int(parameters.cap.shape[0])


@kernel
def _sample(batch: Any, indices: Any, scene: Any, step: Any, k: Any) -> None:
    """The terms of step k: from ``indices`` if there are any, else from the stream."""
    size = batch.shape[0]
    for b in range(size):
        if indices.shape[0] > 0:
            batch[b] = indices[step, b]
        else:
            batch[b] = random_index(scene.key, k * size + b, scene.n)


@kernel
def _move(theta: Any, displacement: Any, g: Any, gamma: Any, beta: Any) -> None:
    """theta_{k+1} = theta_k - gamma g + beta (theta_k - theta_{k-1}), the displacement first.

    ``g`` is left at 0, for sparse gradients to be added to.
    """
    tiny = np.finfo(theta.dtype).tiny
    step, momentum = theta.dtype.type(gamma), theta.dtype.type(beta)
    for j in range(theta.shape[0]):
        motion = momentum * displacement[j] - step * g[j]
        # Momentum alone would go through all subnormal numbers, which are slow.
        displacement[j] = motion if abs(motion) > tiny else theta.dtype.type(0.0)
        theta[j] += displacement[j]
        g[j] = theta.dtype.type(0.0)
