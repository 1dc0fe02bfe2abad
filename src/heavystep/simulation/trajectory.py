"""The iteration as one kernel, for every problem, rule, momentum form and set of metrics."""

from typing import Any

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
from heavystep.simulation.kernel_cache import kernel, loop, loop_part
from heavystep.simulation.lanes import lane_of
from heavystep.simulation.moving import move_all
from heavystep.simulation.parts import Room
from heavystep.simulation.streams import random_index
from heavystep.simulation.stretching import square_of, stretch
from heavystep.simulation.terms import (
    depart,
    dot,
    evaluate,
    loss_error,
    prepare_search,
    trial_loss,
    workspace,
)
from heavystep.simulation.watch import watch_arrival, watch_point, watch_record, watch_step

LOSS, LOW, SQNORM, FULL = range(4)
STEP, MOMENTUM = range(2)


@kernel
def advance(
    terms: Any,
    kinds: Any,
    watch: Any,
    parameters: Any,
    state: Any,
    scene: Any,
    steps: Any,
    indices: Any,
    out: Any,
) -> Array:
    """Take some steps of each seed; ``parameters`` have a row for each of them, or one for all.

    ``indices`` are (seeds, steps, batch) samples; if their second axis is 0, samples are drawn from
    the streams. Metrics go to the row of ``out[seed]`` that belongs to their k. Returns the number
    of steps that each seed took: fewer than asked for if a loss or gradient is not finite, or if
    the rule refuses.
    """
    theta, lanes, size = state.theta, indices.shape[0], indices.shape[2]
    room = Room(
        np.zeros_like(theta),
        np.empty_like(theta),
        np.empty_like(state.squares),
        np.empty((lanes, size), dtype=np.int64),
        workspace(terms, theta, size),
        np.empty((lanes, 4)),
        np.empty((lanes, 2)),
        np.zeros(lanes, dtype=np.int64),
    )
    _iterate(terms, kinds, watch, parameters, state, scene, steps, indices, out, room)
    return room.taken


@loop
def _iterate(
    terms: Any,
    kinds: Any,
    watch: Any,
    parameters: Any,
    state: Any,
    scene: Any,
    steps: Any,
    indices: Any,
    out: Any,
    room: Any,
) -> None:
    """The loop of :func:`advance`: seeds take turns at each part of a step.

    Parts are short: while the last sum of one seed is waited for, the processor must see as far as
    the next seed.
    """
    lanes, taken = state.theta.shape[0], room.taken
    row = np.searchsorted(scene.grid, steps.first + 1)
    for step in range(steps.length):
        k, going = steps.first + step, 0
        for lane in range(lanes):
            _sample(room.batch[lane], indices, scene, k, step, lane)
        for lane in range(lanes):
            if taken[lane] == step:
                _look(terms, state, room, lane)
        for lane in range(lanes):
            if taken[lane] == step:
                _measure(kinds, state, scene, room, lane)
        for lane in range(lanes):
            if taken[lane] == step and _choose(
                terms, kinds, watch, parameters, state, scene, room, k, step, lane
            ):
                taken[lane] += 1
                going += 1
        for lane in range(lanes):
            if taken[lane] > step:
                _arrive(terms, kinds, watch, parameters, state, room, step, lane)
        if row < scene.grid.shape[0] and scene.grid[row] == k + 1:
            for lane in range(lanes):
                if taken[lane] > step:
                    own, work = lane_of(watch, lane), lane_of(room.work, lane)
                    watch_record(own, out[lane, row], terms, state.theta[lane], work)
            row += 1
        if going == 0:
            return


@loop_part
def _look(terms: Any, state: Any, room: Any, lane: Any) -> None:
    """Evaluate loss and gradient of the batch."""
    own, theta, g, batch = lane_of(terms, lane), state.theta[lane], room.gradient[lane], room.batch
    loss, low, full = evaluate(own, theta, batch[lane], g, lane_of(room.work, lane))
    room.seen[lane, LOSS], room.seen[lane, LOW], room.seen[lane, FULL] = loss, low, full


@loop_part
def _measure(kinds: Any, state: Any, scene: Any, room: Any, lane: Any) -> None:
    """The length of the gradient, in the metric of the diagonal."""
    own, g, divisors = lane_of(state, lane), room.gradient[lane], room.divisors[lane]
    stretch(kinds.diagonal, g, own.squares, own.weight, scene.diagonal, divisors)
    room.seen[lane, SQNORM] = square_of(kinds.diagonal, g, dot(g, g), divisors)


@loop_part
def _choose(
    terms: Any,
    kinds: Any,
    watch: Any,
    parameters: Any,
    state: Any,
    scene: Any,
    room: Any,
    k: Any,
    step: Any,
    lane: Any,
) -> bool:
    """Let the rule choose a step; tells whether it is to be taken."""
    loss, sqnorm = room.seen[lane, LOSS], room.seen[lane, SQNORM]
    if not batch_is_finite(loss, sqnorm):
        return False
    theta, buffer, numbers = state.theta[lane], state.buffer[lane], state.memory[lane]
    g, way, divisors = room.gradient[lane], room.way[lane], room.divisors[lane]
    own, work, batch = lane_of(terms, lane), lane_of(room.work, lane), room.batch[lane]
    rule, row, noted = kinds.rule, _row(parameters, step), lane_of(watch, lane)
    watch_point(noted, k, theta, room.seen[lane, FULL])
    beta = theta.dtype.type(parameters.momentum[row])
    constants, memory = constants_at(rule, parameters.constants, row), recall(rule, numbers)
    eps = loss_error(own, theta, g, loss, scene.loss_eps, work)
    products = look(rule, kinds, theta, buffer, g, divisors, beta)
    seen = Seen(loss, room.seen[lane, LOW], sqnorm, eps, *products)
    search = start(rule, constants, memory, seen)
    beta = theta.dtype.type(steered(rule, search, beta))
    if search.active:
        towards = aim(rule, kinds, buffer, g, divisors, beta, way)
        prepare_search(own, theta, towards, batch, work)
        while search.active:
            value = trial_loss(own, theta, towards, search.trial, batch, work)
            search = choice.advance(rule, constants, memory, seen, search, value)
    if not (search.accepted and is_finite(search.step)):
        return False
    keep(rule, numbers, remember(rule, constants, memory, seen, search))
    gamma = parameters.lr[row] * search.step
    room.chosen[lane, STEP], room.chosen[lane, MOMENTUM] = gamma, beta
    watch_step(noted, row, search, gamma, seen)
    depart(own, theta, scene.keys[lane], k, batch.shape[0], work)
    return True


@loop_part
def _arrive(
    terms: Any, kinds: Any, watch: Any, parameters: Any, state: Any, room: Any, step: Any, lane: Any
) -> None:
    """Take the step."""
    theta, chosen = state.theta[lane], room.chosen[lane]
    momentum = theta.dtype.type(chosen[MOMENTUM])
    g, divisors = room.gradient[lane], room.divisors[lane]
    move_all(terms, kinds, theta, state.buffer[lane], g, divisors, chosen[STEP], momentum)
    watch_arrival(lane_of(watch, lane), _row(parameters, step), theta)


@loop_part
def _row(parameters: Any, step: Any) -> Any:
    """The row of tables that belongs to a step."""
    return step if parameters.lr.shape[0] > 1 else 0


@loop_part
def _sample(batch: Any, indices: Any, scene: Any, k: Any, step: Any, lane: Any) -> None:
    """The terms of step k: from ``indices`` if there are any, else from the stream."""
    size = batch.shape[0]
    stride = size - size // 2 if scene.overlap else size
    first = (k if scene.kept == 1 else k // scene.kept) * stride  # a division takes long
    if indices.shape[1] > 0:
        for b in range(size):
            batch[b] = indices[lane, step, b]
        return
    batch[0] = random_index(scene.keys[lane], first, scene.n)
    for b in range(1, size):
        batch[b] = random_index(scene.keys[lane], first + b, scene.n)
