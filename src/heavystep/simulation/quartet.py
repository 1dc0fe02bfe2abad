"""Steps of four seeds at once.

Each number of a step is a vector with an entry for each of them: the rule, what is measured and the
last of each sum cost about as much as for one seed. A seed has the numbers that it has alone.
"""

from typing import Any

from numba.extending import overload

from heavystep.rules import Search, Seen, batch_is_finite, is_finite, some
from heavystep.rules.primitives import where
from heavystep.simulation import choice
from heavystep.simulation.addresses import four_from, hidden, put, row_of
from heavystep.simulation.choice import (
    constants_at,
    decides_for_four,
    keep,
    recall,
    remember,
    start,
    weigh,
)
from heavystep.simulation.forms import goes_by_fours
from heavystep.simulation.fours import WIDTH
from heavystep.simulation.kernel_cache import HIDDEN, INLINE, loop_part
from heavystep.simulation.moving import move_four
from heavystep.simulation.numba_rules import widened
from heavystep.simulation.stretching import NoDiagonal
from heavystep.simulation.sums import squares
from heavystep.simulation.terms import evaluate_all, implements, trial_losses
from heavystep.simulation.truths import as_four, every
from heavystep.simulation.watch import watch_arrival, watch_point, watch_step
from heavystep.simulation.widths import Four

LOSS, LOW, SQNORM, FULL, STEP, WEIGHT = range(6)
"""Rows of what a room has of all seeds."""
_OPTIONS: Any = {**INLINE, **HIDDEN}


def steps_in_fours(
    terms: Any, kinds: Any, watch: Any, parameters: Any, state: Any, scene: Any, room: Any,
    k: Any, row: Any,
) -> Any:  # fmt: skip
    """Take a step of the first four seeds, the next four and so on; returns of how many.

    Nothing has changed for the others: there are no four left, or one of them must not take the
    step, or this problem, rule or form cannot do so for four.
    """
    raise NotImplementedError


@overload(steps_in_fours, jit_options=_OPTIONS, strict=False)
def _choose(
    terms: Any, kinds: Any, watch: Any, parameters: Any, state: Any, scene: Any, room: Any,
    k: Any, row: Any,
) -> Any:  # fmt: skip
    rule, form, diagonal, width = (kind.instance_class for kind in kinds.types)
    able = width is Four and diagonal is NoDiagonal
    able = able and implements(terms.instance_class, evaluate_all)
    able = able and goes_by_fours(form) and decides_for_four(rule)
    return _all_steps if able else _none


def _none(
    terms: Any, kinds: Any, watch: Any, parameters: Any, state: Any, scene: Any, room: Any,
    k: Any, row: Any,
) -> Any:  # fmt: skip
    return 0


def _all_steps(
    terms: Any, kinds: Any, watch: Any, parameters: Any, state: Any, scene: Any, room: Any,
    k: Any, row: Any,
) -> Any:  # fmt: skip
    # Parts are short: while the last sum of one four is waited for, the processor must see as far
    # as the next four.
    last, done = hidden(state.theta.shape[0]) - WIDTH + 1, 0
    for lane in range(0, last, WIDTH):
        _look(terms, state, room, lane)
    for lane in range(0, last, WIDTH):
        put(row_of(room.wide, SQNORM), lane, squares(room.gradient, lane))
    for lane in range(0, last, WIDTH):
        if not _decide(terms, kinds, watch, parameters, state, scene, room, k, row, lane):
            break
        done = lane + WIDTH
    for lane in range(0, done, WIDTH):
        gamma = four_from(row_of(room.wide, STEP), lane)
        weight, momentum = four_from(row_of(room.wide, WEIGHT), lane), parameters.momentum[row]
        move_four(kinds, state.theta, state.buffer, room.gradient, gamma, momentum, weight, lane)
        watch_arrival(watch, Four(), lane, row, state.theta)
    return done


@loop_part
def _look(terms: Any, state: Any, room: Any, lane: Any) -> None:
    """Evaluate loss and gradient of the batches."""
    theta, g, batch = state.theta, room.gradient, room.batch
    loss, low, full = evaluate_all(terms, theta, batch, g, room.work, lane)
    put(row_of(room.wide, LOSS), lane, loss)
    put(row_of(room.wide, LOW), lane, low)
    put(row_of(room.wide, FULL), lane, as_four(full))


@loop_part
def _decide(
    terms: Any, kinds: Any, watch: Any, parameters: Any, state: Any, scene: Any, room: Any,
    k: Any, row: Any, lane: Any,
) -> bool:  # fmt: skip
    """Let the rule choose the steps; tells whether all four are to be taken."""
    rule, theta, g, batch, wide = kinds.rule, state.theta, room.gradient, room.batch, room.wide
    loss, low = four_from(row_of(wide, LOSS), lane), four_from(row_of(wide, LOW), lane)
    sqnorm, full = four_from(row_of(wide, SQNORM), lane), four_from(row_of(wide, FULL), lane)
    constants = constants_at(rule, parameters.constants, row)
    memory = recall(rule, Four(), state.memory, lane)
    seen = Seen(loss, low, sqnorm, scene.loss_eps, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    search = widened(start(rule, constants, memory, seen))
    while some(search.active):
        values = trial_losses(terms, theta, g, search.trial, batch, room.work, lane)
        ahead = widened(choice.advance(rule, constants, memory, seen, search, values))
        search = _where_active(search, ahead)
    if not every(batch_is_finite(loss, sqnorm) & search.accepted & is_finite(search.step)):
        return False
    watch_point(watch, Four(), lane, k, theta, full)
    keep(rule, Four(), state.memory, lane, remember(rule, constants, memory, seen, search))
    gamma = parameters.lr[row] * search.step
    put(row_of(wide, STEP), lane, gamma)
    put(row_of(wide, WEIGHT), lane, as_four(weigh(rule, constants, memory)))
    watch_step(watch, Four(), lane, row, search, gamma, seen)
    return True


@loop_part
def _where_active(search: Any, ahead: Any) -> Any:
    """The searches that are over stay as they are."""
    active = search.active
    return Search(
        where(active, ahead.step, search.step),
        where(active, ahead.accepted, search.accepted),
        where(active, ahead.capped, search.capped),
        where(active, ahead.trial, search.trial),
        where(active, ahead.trials, search.trials),
        where(active, ahead.active, active),
        where(active, ahead.trial_loss, search.trial_loss),
        where(active, ahead.momentum, search.momentum),
    )
