"""The iteration as one compiled loop, made for a problem, a rule, a momentum form and a diagonal.

Along a run the quantities of the paper's theorems are measured, or those of training.
"""

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from heavystep.arrays import Array
from heavystep.lab.simulation.compiling import Function, kernel, part, teach, total
from heavystep.lab.simulation.configuration import EPS
from heavystep.lab.simulation.problems import Kernels, dot, random_index
from heavystep.methods import Method
from heavystep.momentum import Form, divisor, second_moment
from heavystep.rules import DIRECTION, PRODUCTS, Rule, Seen, batch_is_finite, is_finite

TINY = float(np.finfo(np.float64).tiny)
teach(batch_is_finite, is_finite, divisor, second_moment)


class State(NamedTuple):
    """State of a run between calls, and the arrays that a step works with."""

    theta: Array
    buffer: Array  # the momentum form's state of each parameter
    memory: Array  # the rule's memory, in its order
    gradient: Array
    way: Array  # what trials go along, if that is not the gradient
    batch: Array
    squares: Array  # the second moments of the diagonal: one an element, one in all, or none
    weight: Array  # (1,) the sum of the weights in them
    divisors: Array  # (d,) the diagonal; empty without one
    numbers: Array  # (1,) metrics so far, the sum of weights, and the steps since a record
    average: Array  # of the iterates


class Scene(NamedTuple):
    """Input of a call. Tables have a row for each step of the call, or one for all steps."""

    first: int  # the number of its first step
    length: int  # how many steps
    constants: Array  # the constants of the rule
    lr: Array
    momentum: Array
    grid: Array  # steps after which metrics are recorded, increasing: those that are still to come
    key: Any  # of the seed's stream
    n: int  # number of terms
    loss_eps: float  # relative rounding error of losses
    ahead: Array  # gamma_min,k, gamma_max,k (or NaN) and the weight of theta_{k+1} in the average
    weighted: bool  # whether the average has weights; else it is that of theta_0 .. theta_k
    L: float  # smoothness of the losses that the method sees
    point_error: float  # rounding of a point, for the step bounds


@cache
def compiled_loop(kernels: Kernels, method: Method, diagonal: str | None, theory: bool) -> Any:
    """The loop: (data, state, scene, indices, out) to the number of steps taken.

    ``indices`` are (steps, batch) samples; if there are none, samples are drawn from the stream.
    Metrics go to the rows of ``out``, one for each k of the grid. It takes fewer steps than asked
    for if a loss or gradient is not finite, or if the rule refuses.
    """
    rule, form, scaled = method.rule, method.form, diagonal is not None
    formulas: list[Any] = [rule.start, rule.remember, form.move, form.direction]
    said = teach(*formulas, *filter(None, [rule.advance]))  # a closed form never advances
    begin, retain, move, _ = formulas
    searches, steers, averages = rule.searches, rule.steers, rule.averages
    constants_at, recall, keep = _tables(rule)
    look, line_search = _looking(rule, form, scaled), _searching(kernels, rule, form, scaled)
    square, update = _product("gradient", "gradient", 1, form, scaled), _DIAGONALS[diagonal]
    evaluate, record = kernels.evaluate, _recording(kernels, theory)

    def loop(data: Any, state: Any, scene: Any, indices: Any, out: Any) -> Any:
        theta, buffer, g, divisors = state.theta, state.buffer, state.gradient, state.divisors
        scheduled, recorded = scene.lr.shape[0] > 1, 0
        for place in range(scene.length):
            k, row = scene.first + place, place if scheduled else 0
            _draw(state.batch, scene, k, indices, place)
            loss, low, sqnorm, full = evaluate(data, theta, state.batch, g)
            if sqnorm != sqnorm:
                sqnorm = dot(g, g)
            if scaled and is_finite(sqnorm):
                update(state, sqnorm)
                sqnorm = square(theta, buffer, g, divisors, 0.0)
            if not batch_is_finite(loss, sqnorm):
                return place
            if theory:
                _watch_point(state, scene, k, full)
            beta, constants = scene.momentum[row], constants_at(scene.constants, row)
            memory = recall(state.memory)
            seen = look(loss, low, sqnorm, scene.loss_eps, theta, buffer, g, divisors, beta)
            search = begin(constants, memory, seen)
            if steers:
                beta = search.momentum
            if searches and search.active:
                search = line_search(data, state, constants, memory, seen, search, beta)
            if not (search.accepted and is_finite(search.step)):
                return place
            weight = search.weight if averages else 1.0
            keep(state.memory, retain(constants, memory, seen, search))
            gamma = scene.lr[row] * search.step
            if theory:
                _watch_bounds(state.numbers[0], scene, row, search, seen)
            else:
                _watch_choice(state.numbers[0], scene, row, search, gamma)
            for j in range(theta.shape[0]):
                own = gamma / divisors[j] if scaled else gamma
                motion, kept = move(buffer[j], g[j], own, beta, weight)
                # Momentum alone would go through all subnormal numbers, which are slow.
                buffer[j] = kept if abs(kept) > TINY else 0.0
                theta[j] += motion if abs(motion) > TINY else 0.0
            if theory and scene.weighted:
                _include(state, scene.ahead[row].weight)
            if recorded < scene.grid.shape[0] and scene.grid[recorded] == k + 1:
                record(data, state, out[recorded])
                recorded += 1
        return scene.length

    fields = (*rule.Constants._fields, *rule.Memory._fields)  # type: ignore[attr-defined]
    made_of = (kernels.name, rule.name, form.name, diagonal, theory, said, sorted(rule.reads))
    return kernel(loop, *made_of, fields, (searches, steers, rule.along, averages))


@part
def _draw(batch: Any, scene: Any, k: Any, indices: Any, place: Any) -> None:
    """The samples of step k: those given, or those of the seed's stream."""
    for b in range(batch.shape[0]):
        if indices.shape[0] > 0:
            batch[b] = indices[place, b]
        else:
            batch[b] = random_index(scene.key, k * batch.shape[0] + b, scene.n)


def _searching(kernels: Kernels, rule: Rule, form: Form, scaled: bool) -> Function:
    """A function that tries steps until the rule ends the search."""
    prepare, trial, direct, go_on = kernels.prepare, kernels.trial, form.direction, rule.advance
    along_direction = rule.along == DIRECTION

    def line_search(
        data: Any, state: Any, constants: Any, memory: Any, seen: Any, search: Any, beta: Any
    ) -> Any:
        theta, g, way, divisors = state.theta, state.gradient, state.gradient, state.divisors
        if along_direction or scaled:
            way = state.way
            for j in range(g.shape[0]):
                towards = direct(state.buffer[j], g[j], beta) if along_direction else g[j]
                way[j] = towards / divisors[j] if scaled else towards
        prepare(data, theta, way, state.batch)
        while search.active:
            value = trial(data, theta, way, search.trial, state.batch)
            search = go_on(constants, memory, seen, search, value)  # type: ignore[misc]
        return search

    return part(line_search)


# What takes a gradient into the second moments and writes the diagonal; all parameters of a problem
# are one tensor.


@part
def _diagonal_of_elements(state: Any, sqnorm: Any) -> None:
    state.weight[0] = second_moment(state.weight[0], 1.0)
    g, squares = state.gradient, state.squares
    for j in range(g.shape[0]):
        squares[j] = second_moment(squares[j], g[j] * g[j])
        state.divisors[j] = divisor(squares[j], state.weight[0])


@part
def _diagonal_of_tensor(state: Any, sqnorm: Any) -> None:
    state.weight[0] = second_moment(state.weight[0], 1.0)
    state.squares[0] = second_moment(state.squares[0], sqnorm / state.gradient.shape[0])
    state.divisors[:] = divisor(state.squares[0], state.weight[0])


_DIAGONALS = {
    None: part(lambda state, sqnorm: None),
    "element": _diagonal_of_elements,
    "tensor": _diagonal_of_tensor,
}

# Named tuples are put together element by element, because numba can neither unpack an array into
# one nor loop over mixed types.


def _made(source: str, compiled: Function = part, **names: Any) -> Function:
    exec(source, names)
    made: Function = compiled(names["made"])
    return made


def _tables(rule: Rule) -> tuple[Function, Function, Function]:
    """Read the constants of a step, read the memory, and write it."""
    constants, memory = rule.Constants._fields, rule.Memory._fields  # type: ignore[attr-defined]
    row = ", ".join(f"table[row, {place}]" for place in range(len(constants)))
    numbers = ", ".join(f"memory[{place}]" for place in range(len(memory)))
    writes = [f" memory[{place}] = new[{place}]" for place in range(len(memory))]
    return (
        _made(f"def made(table, row): return kind({row})", kind=rule.Constants),
        _made(f"def made(memory): return kind({numbers})", kind=rule.Memory),
        _made("\n".join(["def made(memory, new):", *writes, " return 0"])),
    )


def _looking(rule: Rule, form: Form, scaled: bool) -> Function:
    """A function that makes a :class:`Seen`: with the products that the rule reads."""
    held = "theta, buffer, g, divisors, momentum"
    known = {"loss": "loss", "lower_bound": "low", "grad_sqnorm": "sqnorm", "loss_eps": "eps"}
    names: dict[str, Any] = {"Seen": Seen}
    for name in set(PRODUCTS) & set(rule.reads) - set(known):
        names[name] = _product(*PRODUCTS[name], form, scaled)
        known[name] = f"{name}({held})"
    values = ", ".join(known.get(name, "0.0") for name in Seen._fields)
    return _made(f"def made(loss, low, sqnorm, eps, {held}): return Seen({values})", **names)


def _product(left: str, right: str, power: int, form: Form, scaled: bool) -> Function:
    """An inner product of two vectors, as :data:`heavystep.rules.PRODUCTS` names them."""
    entry = {"gradient": "g[j]", "direction": "direct(buffer[j], g[j], momentum)",
             "buffer": "buffer[j]", "position": "theta[j]", "|position|": "abs(theta[j])",
             "unit": "theta.shape[0] ** -0.5"}  # fmt: skip
    divided = " / divisors[j]" * (power if scaled else 0)
    source = f"""
def made(theta, buffer, g, divisors, momentum):
    result = 0.0
    for j in range(g.shape[0]):
        result += {entry[left]} * {entry[right]}{divided}
    return result
"""
    return _made(source, total, direct=form.direction)


# What is measured along a run.

NEARLY = 1.0 - 4.0 * EPS
"""A line search makes its largest step by a division and a product: it may miss it by rounding."""
ROUNDINGS = 64.0
BLUR = 1e-6
"""A step bound is looked at where rounding of the loss moves the step by less than this part."""
THEORY_METRICS = (
    "gap_average", "gap_last", "best", "best_after", "grad_last", "lowest", "highest", "trials",
)  # fmt: skip
"""Metrics of finite sums at each point of the grid, after k steps: F - F* at the average
and at theta_k; the least ||grad F||^2 at theta_0 .. theta_{k-1} and at theta_1 .. theta_k, and that
at theta_k; the smallest step in units of gamma_min and the largest in units of gamma_max (Lemmas 2
and 5); the trials since the start."""
TRAINING_METRICS = ("loss", "step", "capped", "limited", "trials")
"""Metrics of sparse logistic regression: the full loss, and since the last record the mean
step, the share of steps at the largest step and the share held below it by the smooth reset; the
trials since the start."""


def numbers_of(count: int, *names: str) -> Array:
    """Rows of numbers with these names, which kernels read and write as attributes."""
    return np.zeros(count, dtype=[(name, np.float64) for name in names])


def _recording(kernels: Kernels, theory: bool) -> Function:
    """A function that writes the metrics of the present point to a row."""
    objective, full_sqnorm = kernels.objective, kernels.full_sqnorm

    def record(data: Any, state: Any, row: Any) -> None:
        numbers = state.numbers[0]
        row.trials = numbers.trials
        if theory:
            row.gap_average = objective(data, state.average)
            row.gap_last = objective(data, state.theta)
            row.grad_last = full_sqnorm(data, state.theta)
            row.best = numbers.best
            row.best_after = min(numbers.best_after, row.grad_last)
            row.lowest, row.highest = numbers.lowest, numbers.highest
        else:
            row.loss = objective(data, state.theta)
            row.step = numbers.step / numbers.taken
            row.capped = numbers.capped / numbers.taken
            row.limited = numbers.limited / numbers.taken
            numbers.step = numbers.capped = numbers.limited = numbers.taken = 0.0

    return part(record)


@part
def _include(state: Any, weight: Any) -> None:
    """One more point in the running average, by its difference from it."""
    theta, average, numbers = state.theta, state.average, state.numbers[0]
    numbers.weights += weight
    share = weight / numbers.weights
    for j in range(theta.shape[0]):
        average[j] += share * (theta[j] - average[j])


@part
def _watch_point(state: Any, scene: Any, k: Any, full: Any) -> None:
    """At theta_k, before the step; ``full`` is ||grad F||^2, or NaN."""
    numbers = state.numbers[0]
    if full < numbers.best:
        numbers.best = full
    if k > 0 and full < numbers.best_after:
        numbers.best_after = full
    if not scene.weighted:
        _include(state, 1.0)


@part
def _watch_bounds(numbers: Any, scene: Any, row: Any, search: Any, seen: Any) -> None:
    bounds, step = scene.ahead[row], search.step
    numbers.trials += search.trials
    if step > numbers.highest * bounds.most:
        numbers.highest = step / bounds.most
    if step < numbers.lowest * bounds.least and seen.grad_sqnorm > 0.0:
        error = ROUNDINGS * EPS * (abs(seen.loss) + abs(seen.lower_bound)) + TINY
        moved = math.sqrt(seen.grad_sqnorm) + scene.L * scene.point_error
        error += scene.point_error * moved
        if error < BLUR * min(seen.loss - seen.lower_bound, bounds.least * seen.grad_sqnorm):
            numbers.lowest = step / bounds.least


@part
def _watch_choice(numbers: Any, scene: Any, row: Any, search: Any, gamma: Any) -> None:
    numbers.taken += 1.0
    numbers.step += gamma
    if search.capped and search.step < NEARLY * scene.ahead[row].most:
        numbers.limited += 1.0
    elif search.capped:
        numbers.capped += 1.0
    numbers.trials += search.trials
