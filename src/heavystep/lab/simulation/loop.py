"""The iteration as one compiled loop, made for a problem, a rule, a momentum form and a watch."""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from heavystep.arrays import Array
from heavystep.lab.simulation.compiling import kernel, part, teach, total
from heavystep.lab.simulation.kernels import Function, Kernels, dot
from heavystep.lab.simulation.streams import random_index
from heavystep.lab.simulation.watches import Watching
from heavystep.momentum import Form, divisor, second_moment
from heavystep.rules import DIRECTION, PRODUCTS, Rule, Seen, batch_is_finite, is_finite

TINY = float(np.finfo(np.float64).tiny)
teach(batch_is_finite, is_finite, divisor, second_moment)


class State(NamedTuple):
    """What a run carries from call to call, and the arrays that a step works with."""

    theta: Array
    buffer: Array
    """The momentum form's state of each parameter."""
    memory: Array
    """The rule's memory, in its order."""
    gradient: Array
    way: Array
    """What trials go along, if that is not the gradient."""
    batch: Array
    squares: Array
    """The second moments of the diagonal: one an element, one in all, or none."""
    weight: Array
    """(1,) the sum of the weights in them."""
    divisors: Array
    """(d,) the diagonal; empty without one."""


class Scene(NamedTuple):
    """What a call is told."""

    first: int
    """The number of its first step."""
    length: int
    """How many steps."""
    constants: Array
    """(steps, constants) the constants of the rule, or one row for all steps."""
    lr: Array
    momentum: Array
    grid: Array
    """Steps after which metrics are recorded, increasing."""
    row: int
    """The place in the grid of the first of them that is still to come."""
    key: Any
    """Of the seed's stream."""
    n: int
    """Number of terms."""
    loss_eps: float
    """Relative rounding error of losses."""
    kept: int
    """For how many steps a batch is kept."""
    overlap: bool
    """Whether the first half of a batch is the second half of the one before."""


@cache
def advance(
    kernels: Kernels, rule: Rule, form: Form, diagonal: str | None, watching: Watching, kind: str
) -> Any:
    """The loop: (data, work, watch, state, scene, indices, out) to the number of steps taken.

    ``indices`` are (steps, batch) samples; if there are none, samples are drawn from the stream.
    Metrics go to the row of ``out`` that belongs to their k. It takes fewer steps than asked for
    if a loss or gradient is not finite, or if the rule refuses.
    """
    go_on: Any = rule.advance  # None for a closed form, which never searches
    said = teach(rule.start, rule.skip, rule.remember, form.move, form.direction)
    said += teach(*filter(None, [go_on]))
    begin, skip, retain, move = rule.start, rule.skip, rule.remember, form.move
    searches, steers, along_direction = rule.searches, rule.steers, rule.along == DIRECTION
    constants_at, recall, keep = _tables(rule)
    look, direct, measured = _looking(rule, form, diagonal), form.direction, diagonal is not None
    square, update = _product("gradient", "gradient", 1, form, diagonal), _METRICS[diagonal]
    averages = rule.averages
    evaluate, prepare, trial, error, depart = (
        kernels.evaluate, kernels.prepare, kernels.trial, kernels.error, kernels.depart,
    )  # fmt: skip
    watch_point, watch_step, watch_arrival, watch_record = watching

    @part
    def step(data: Any, work: Any, watch: Any, state: Any, scene: Any, k: Any, row: Any) -> Any:
        theta, buffer, g, divisors = state.theta, state.buffer, state.gradient, state.divisors
        loss, low, sqnorm, full = evaluate(data, theta, state.batch, g, work)
        if sqnorm != sqnorm:
            sqnorm = dot(g, g)
        if measured and is_finite(sqnorm):
            update(state, sqnorm)
            sqnorm = square(theta, buffer, g, divisors, 0.0)
        if not batch_is_finite(loss, sqnorm):
            return False
        watch_point(watch, k, theta, full)
        beta, constants = scene.momentum[row], constants_at(scene.constants, row)
        memory = recall(state.memory)
        eps = error(data, theta, g, loss, scene.loss_eps, work)
        seen = look(loss, low, sqnorm, eps, theta, buffer, g, divisors, beta)
        search = skip(constants, memory, seen, begin(constants, memory, seen))
        if steers:
            beta = search.momentum
        if searches and search.active:
            way = g
            if along_direction or measured:
                way = state.way
                for j in range(g.shape[0]):
                    towards = direct(buffer[j], g[j], beta) if along_direction else g[j]
                    way[j] = towards / divisors[j] if measured else towards
            prepare(data, theta, way, state.batch, work)
            while search.active:
                value = trial(data, theta, way, search.trial, state.batch, work)
                search = go_on(constants, memory, seen, search, value)
        if not (search.accepted and is_finite(search.step)):
            return False
        weight = search.weight if averages else 1.0
        keep(state.memory, retain(constants, memory, seen, search))
        gamma = scene.lr[row] * search.step
        watch_step(watch, row, search, gamma, seen)
        depart(data, theta, scene.key, k, state.batch.shape[0], work)
        for j in range(theta.shape[0]):
            pull = g[j] / divisors[j] if measured else g[j]
            motion, kept = move(buffer[j], pull, gamma, beta, weight)
            # Momentum alone would go through all subnormal numbers, which are slow.
            buffer[j] = kept if abs(kept) > TINY else 0.0
            theta[j] += motion if abs(motion) > TINY else 0.0
        watch_arrival(watch, row, theta)
        return True

    def loop(
        data: Any, work: Any, watch: Any, state: Any, scene: Any, indices: Any, out: Any
    ) -> Any:
        scheduled, row = scene.lr.shape[0] > 1, scene.row
        for place in range(scene.length):
            k = scene.first + place
            _sample(state.batch, indices, scene, k, place)
            if not step(data, work, watch, state, scene, k, place if scheduled else 0):
                return place
            if row < scene.grid.shape[0] and scene.grid[row] == k + 1:
                watch_record(watch, out[row], data, state.theta, work)
                row += 1
        return scene.length

    return kernel(
        loop, kernels.name, rule.name, form.name, diagonal, kind, said, sorted(rule.reads)
    )


@part
def _no_metric(state: Any, sqnorm: Any) -> None:
    pass


@part
def _metric_of_elements(state: Any, sqnorm: Any) -> None:
    state.weight[0] = second_moment(state.weight[0], 1.0)
    g, squares = state.gradient, state.squares
    for j in range(g.shape[0]):
        squares[j] = second_moment(squares[j], g[j] * g[j])
        state.divisors[j] = divisor(squares[j], state.weight[0])


@part
def _metric_of_tensor(state: Any, sqnorm: Any) -> None:
    state.weight[0] = second_moment(state.weight[0], 1.0)
    state.squares[0] = second_moment(state.squares[0], sqnorm / state.gradient.shape[0])
    state.divisors[:] = divisor(state.squares[0], state.weight[0])


_METRICS = {None: _no_metric, "element": _metric_of_elements, "tensor": _metric_of_tensor}
"""What takes a gradient into the second moments and writes the diagonal; all parameters of a
problem are one tensor."""


@part
def _sample(batch: Any, indices: Any, scene: Any, k: Any, place: Any) -> None:
    """The terms of step k: from ``indices`` if there are any, else from the stream."""
    size = batch.shape[0]
    if indices.shape[0] > 0:
        for b in range(size):
            batch[b] = indices[place, b]
    else:
        stride = size - size // 2 if scene.overlap else size
        first = (k if scene.kept == 1 else k // scene.kept) * stride
        for b in range(size):
            batch[b] = random_index(scene.key, first + b, scene.n)


# Named tuples are put together element by element, because numba can neither unpack an array into
# one nor loop over mixed types.


def _made(source: str, **names: Any) -> Function:
    exec(source, names)
    made: Function = part(names["made"])
    return made


def _tables(rule: Rule) -> tuple[Function, Function, Function]:
    """Read the constants of a step, read the memory, and write it."""
    constants, memory = _fields(rule.Constants), _fields(rule.Memory)
    row = ", ".join(f"table[row, {place}]" for place in range(len(constants)))
    numbers = ", ".join(f"memory[{place}]" for place in range(len(memory)))
    writes = [f" memory[{place}] = new[{place}]" for place in range(len(memory))]
    return (
        _made(f"def made(table, row): return kind({row})", kind=rule.Constants),
        _made(f"def made(memory): return kind({numbers})", kind=rule.Memory),
        _made("\n".join(["def made(memory, new):", *writes, " return 0"])),
    )


def _fields(kind: Any) -> Sequence[str]:
    fields: Sequence[str] = kind._fields
    return fields


def _looking(rule: Rule, form: Form, diagonal: str | None) -> Function:
    """A function that makes a :class:`Seen`: with the products that the rule reads."""
    held = "theta, buffer, g, divisors, momentum"
    known = {"loss": "loss", "lower_bound": "low", "grad_sqnorm": "sqnorm", "loss_eps": "eps"}
    names: dict[str, Any] = {"Seen": Seen}
    for name in set(PRODUCTS) & set(rule.reads) - set(known):
        names[name] = _product(*PRODUCTS[name], form, diagonal)
        known[name] = f"{name}({held})"
    values = ", ".join(known.get(name, "0.0") for name in Seen._fields)
    return _made(f"def made(loss, low, sqnorm, eps, {held}): return Seen({values})", **names)


def _product(left: str, right: str, power: int, form: Form, diagonal: str | None) -> Function:
    """An inner product of two vectors, as :data:`heavystep.rules.PRODUCTS` names them."""
    direct, entry = (
        form.direction,
        {
            "gradient": "g[j]",
            "direction": "direct(buffer[j], g[j], momentum)",
            "buffer": "buffer[j]",
            "position": "theta[j]",
        },
    )
    divided = " / divisors[j]" * (power if diagonal else 0)
    source = f"""
def made(theta, buffer, g, divisors, momentum):
    result = 0.0
    for j in range(g.shape[0]):
        result += {entry[left]} * {entry[right]}{divided}
    return result
"""
    names: dict[str, Any] = {"direct": direct}
    exec(source, names)
    made: Function = total(names["made"])
    return made
