"""The iteration as one kernel, for every problem, rule, momentum form and set of metrics."""

from typing import Any

import numpy as np

from heavystep.arrays import Array
from heavystep.rules import Seen, batch_is_finite, is_finite
from heavystep.simulation import choice
from heavystep.simulation.addresses import hidden
from heavystep.simulation.choice import (
    aim,
    constants_at,
    keep,
    look,
    recall,
    remember,
    start,
    steered,
    weigh,
)
from heavystep.simulation.kernel_cache import kernel, loop, loop_part
from heavystep.simulation.lanes import lane_of
from heavystep.simulation.moving import move_all
from heavystep.simulation.parts import Room
from heavystep.simulation.quartet import steps_in_fours
from heavystep.simulation.streams import random_index
from heavystep.simulation.stretching import square_of, stretch
from heavystep.simulation.sums import square
from heavystep.simulation.terms import (
    depart,
    evaluate,
    loss_error,
    prepare_search,
    trial_loss,
    workspace,
)
from heavystep.simulation.watch import (
    watch_arrival,
    watch_point,
    watch_record,
    watch_step,
    watch_together,
)
from heavystep.simulation.widths import One

LOSS, LOW, SQNORM, FULL = range(4)
STEP, MOMENTUM, WEIGHT = range(3)
DRAWN = 16
"""Steps whose samples are drawn at once, where each has one."""


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
        np.empty((lanes, 3)),
        np.zeros(lanes, dtype=np.int64),
        np.empty((6, lanes)),
        np.empty((lanes, DRAWN), dtype=np.int64),
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
    """The loop of :func:`advance`: a step of four seeds at once, as long as there are four.

    Those that are left take turns, and so do all of them once one has stopped.
    """
    lanes, taken = state.theta.shape[0], room.taken
    row, together = np.searchsorted(scene.grid, steps.first + 1), True
    for step in range(steps.length):
        k, first = steps.first + step, 0
        _sample(room, indices, scene, k, step)
        if together:
            first = steps_in_fours(
                terms, kinds, watch, parameters, state, scene, room, k, _row(parameters, step)
            )
        for lane in range(first):
            taken[lane] += 1
        going = first + _take_turns(
            terms, kinds, watch, parameters, state, scene, room, k, step, first
        )
        together = going == lanes
        if row < scene.grid.shape[0] and scene.grid[row] == k + 1:
            watch_together(watch, terms, state.theta, room.work)
            for lane in range(lanes):
                if taken[lane] > step:
                    own, work = lane_of(watch, lane), lane_of(room.work, lane)
                    watch_record(own, out[lane, row], terms, state.theta[lane], work)
            row += 1
        if going == 0:
            return


@loop_part
def _take_turns(
    terms: Any,
    kinds: Any,
    watch: Any,
    parameters: Any,
    state: Any,
    scene: Any,
    room: Any,
    k: Any,
    step: Any,
    first: Any,
) -> int:
    """Take a step of the seeds from ``first`` on; returns how many took it.

    Seeds take turns at each part of a step. Parts are short: while the last sum of one seed is
    waited for, the processor must see as far as the next seed.
    """
    lanes, taken, going = state.theta.shape[0], room.taken, 0
    for lane in range(first, lanes):
        if taken[lane] == step:
            _look(terms, state, room, lane)
    for lane in range(first, lanes):
        if taken[lane] == step:
            _measure(kinds, state, scene, room, lane)
    for lane in range(first, lanes):
        if taken[lane] == step and _choose(
            terms, kinds, watch, parameters, state, scene, room, k, step, lane
        ):
            taken[lane] += 1
            going += 1
    for lane in range(first, lanes):
        if taken[lane] > step:
            _arrive(terms, kinds, watch, parameters, state, room, step, lane)
    return going


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
    room.seen[lane, SQNORM] = square_of(kinds.diagonal, g, square(g), divisors)


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
    theta, buffer = state.theta[lane], state.buffer[lane]
    g, way, divisors = room.gradient[lane], room.way[lane], room.divisors[lane]
    own, work, batch = lane_of(terms, lane), lane_of(room.work, lane), room.batch[lane]
    rule, row = kinds.rule, _row(parameters, step)
    watch_point(watch, One(), lane, k, state.theta, room.seen[lane, FULL])
    beta = theta.dtype.type(parameters.momentum[row])
    constants = constants_at(rule, parameters.constants, row)
    memory = recall(rule, One(), state.memory, lane)
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
    keep(rule, One(), state.memory, lane, remember(rule, constants, memory, seen, search))
    gamma = parameters.lr[row] * search.step
    room.chosen[lane, STEP], room.chosen[lane, MOMENTUM] = gamma, beta
    room.chosen[lane, WEIGHT] = weigh(rule, constants, memory)
    watch_step(watch, One(), lane, row, search, gamma, seen)
    depart(own, theta, scene.keys[lane], k, batch.shape[0], work)
    return True


@loop_part
def _arrive(
    terms: Any, kinds: Any, watch: Any, parameters: Any, state: Any, room: Any, step: Any, lane: Any
) -> None:
    """Take the step."""
    theta, buffer, chosen = state.theta[lane], state.buffer[lane], room.chosen[lane]
    momentum = theta.dtype.type(chosen[MOMENTUM])
    g, divisors = room.gradient[lane], room.divisors[lane]
    move_all(terms, kinds, theta, buffer, g, divisors, chosen[STEP], momentum, chosen[WEIGHT])
    watch_arrival(watch, One(), lane, _row(parameters, step), state.theta)


@loop_part
def _row(parameters: Any, step: Any) -> Any:
    """The row of tables that belongs to a step."""
    return step if hidden(parameters.lr.shape[0]) > 1 else 0


@loop_part
def _draw_ahead(drawn: Any, scene: Any, first: Any, place: Any) -> None:
    """Draw the samples of some steps at once, so that no step waits for its own."""
    if place == 0:
        for lane in range(drawn.shape[0]):
            for b in range(DRAWN):
                drawn[lane, b] = random_index(scene.keys[lane], first + b, scene.n)


@loop_part
def _sample(room: Any, indices: Any, scene: Any, k: Any, step: Any) -> None:
    """The terms of step k: from ``indices`` if there are any, else from the streams."""
    batch = room.batch
    lanes, size, kept = batch.shape[0], hidden(batch.shape[1]), hidden(scene.kept)
    stride = size - size // 2 if scene.overlap else size
    first = (k if kept == 1 else k // kept) * stride  # a division takes long
    if hidden(indices.shape[1]) > 0:
        for lane in range(lanes):
            for b in range(size):
                batch[lane, b] = indices[lane, step, b]
    elif size == 1 and kept == 1:
        _draw_ahead(room.drawn, scene, first, step % DRAWN)
        for lane in range(lanes):
            batch[lane, 0] = room.drawn[lane, step % DRAWN]
    else:
        for lane in range(lanes):
            for b in range(size):
                batch[lane, b] = random_index(scene.keys[lane], first + b, scene.n)
