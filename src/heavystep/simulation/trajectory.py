"""The iteration as one kernel, for every problem, rule, momentum form and set of metrics."""

from typing import Any, NamedTuple

import numpy as np

from heavystep.arrays import Array
from heavystep.rules import Seen, batch_is_finite, is_finite
from heavystep.simulation import choice
from heavystep.simulation.choice import (
    aim,
    constants_at,
    keep,
    look,
    recall,
    remember,
    start,
    steered,
)
from heavystep.simulation.forms import move
from heavystep.simulation.kernel_cache import kernel
from heavystep.simulation.streams import random_index
from heavystep.simulation.stretching import divided, square_of, stretch
from heavystep.simulation.terms import (
    depart,
    evaluate,
    loss_error,
    prepare_search,
    trial_loss,
    workspace,
)
from heavystep.simulation.watch import watch_arrival, watch_point, watch_record, watch_step


class Kinds(NamedTuple):
    """The rule, the momentum form and the diagonal, as types."""

    rule: Any
    form: Any
    diagonal: Any


class State(NamedTuple):
    """What a run carries from call to call."""

    theta: Array
    buffer: Array
    """The momentum form's state of each parameter."""
    memory: Array
    """The rule's memory, in its order."""
    squares: Array
    """The average square of each gradient; empty without a diagonal."""
    weight: Array
    """The sum of the weights in those averages: one number, or none."""


class Scene(NamedTuple):
    """What stays fixed."""

    grid: Array
    """Steps after which metrics are recorded, increasing."""
    key: Any
    """The seed's stream."""
    n: int
    """Number of terms."""
    loss_eps: float
    """Relative rounding error of losses."""
    diagonal: Array
    """beta_2 and eps of the diagonal, if there is one."""
    kept: int
    """For how many steps a batch is kept."""
    overlap: bool
    """Whether the first half of a batch is the second half of the one before."""


@kernel
def advance(
    terms: Any,
    kinds: Any,
    watch: Any,
    parameters: Any,
    state: Any,
    scene: Any,
    first: int,
    indices: Any,
    out: Any,
) -> int:
    """Take one step for each row of ``parameters``; ``first`` is the number of the first.

    ``indices`` are (steps, batch) samples; if their first axis is 0, samples are drawn from the
    stream. Metrics go to the row of ``out`` that belongs to their k. Returns the number of steps
    taken: fewer than asked for if a loss or gradient is not finite, or if the rule refuses.
    """
    theta, buffer, numbers, squares, weight = state
    rule = kinds.rule
    g, way, divisors = np.zeros_like(theta), np.empty_like(theta), np.empty_like(squares)
    batch = np.empty(indices.shape[1], dtype=np.int64)
    work = workspace(terms, theta, batch.shape[0])
    row = np.searchsorted(scene.grid, first + 1)
    for step in range(parameters.lr.shape[0]):
        k = first + step
        _sample(batch, indices, scene, step, k)
        loss, low, full = evaluate(terms, theta, batch, g, work)
        stretch(kinds.diagonal, g, squares, weight, scene.diagonal, divisors)
        sqnorm = square_of(kinds.diagonal, g, divisors)
        if not batch_is_finite(loss, sqnorm):
            return step
        watch_point(watch, k, theta, full)
        beta = theta.dtype.type(parameters.momentum[step])
        constants, memory = constants_at(rule, parameters.constants, step), recall(rule, numbers)
        eps = loss_error(terms, theta, g, loss, scene.loss_eps, work)
        products = look(rule, kinds, theta, buffer, g, divisors, beta)
        seen = Seen(loss, low, sqnorm, eps, *products)
        search = start(rule, constants, memory, seen)
        beta = theta.dtype.type(steered(rule, search, beta))
        if search.active:
            towards = aim(rule, kinds, buffer, g, divisors, beta, way)
            prepare_search(terms, theta, towards, batch, work)
            while search.active:
                value = trial_loss(terms, theta, towards, search.trial, batch, work)
                search = choice.advance(rule, constants, memory, seen, search, value)
        if not (search.accepted and is_finite(search.step)):
            return step
        keep(rule, numbers, remember(rule, constants, memory, seen, search))
        gamma = parameters.lr[step] * search.step
        watch_step(watch, step, search, gamma, seen)
        depart(terms, theta, scene.key, k, batch.shape[0], work)
        _move(kinds, theta, buffer, g, divisors, gamma, beta)
        watch_arrival(watch, step, theta)
        if row < scene.grid.shape[0] and scene.grid[row] == k + 1:
            watch_record(watch, out[row], terms, theta)
            row += 1
    return int(parameters.lr.shape[0])


@kernel
def _sample(batch: Any, indices: Any, scene: Any, step: Any, k: Any) -> None:
    """The terms of step k: from ``indices`` if there are any, else from the stream."""
    size = batch.shape[0]
    stride = size - size // 2 if scene.overlap else size
    first = (k if scene.kept == 1 else k // scene.kept) * stride  # a division takes long
    for b in range(size):
        if indices.shape[0] > 0:
            batch[b] = indices[step, b]
        else:
            batch[b] = random_index(scene.key, first + b, scene.n)


@kernel
def _move(
    kinds: Any, theta: Any, buffer: Any, g: Any, divisors: Any, gamma: Any, momentum: Any
) -> None:
    """Move every parameter; ``g`` is left at 0, for sparse gradients to be added to."""
    number = theta.dtype.type
    tiny, zero, step = np.finfo(theta.dtype).tiny, number(0.0), number(gamma)
    for j in range(theta.shape[0]):
        own = divided(kinds.diagonal, step, divisors, j)
        motion, kept = move(kinds.form, buffer[j], g[j], own, momentum)
        # Momentum alone would go through all subnormal numbers, which are slow.
        theta[j] += number(motion) if abs(motion) > tiny else zero
        buffer[j] = number(kept) if abs(kept) > tiny else zero
        g[j] = zero
