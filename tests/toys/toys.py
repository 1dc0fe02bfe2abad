"""A rule that passes its memory on, a line search and a momentum form: all one adds."""

from contextlib import contextmanager
from typing import NamedTuple

from heavystep import methods, validation
from heavystep.methods import Method
from heavystep.momentum import Form
from heavystep.rules import (
    Option,
    Rule,
    Search,
    batch_is_finite,
    is_finite,
    maximum,
    where,
)
from heavystep.rules.contract import constants
from tests.toys import literal


def start_history(constants, memory, seen):
    """The step of this batch was decided by the last one."""
    return Search(memory.next_step, batch_is_finite(seen.loss, seen.grad_sqnorm), capped=False)


HISTORY = Rule(
    name="history",
    formula=r"\gamma_{k+1} = 1 / (10 + 10 \|g_{k-2}\|^2)",
    reference="a toy",
    options=(),
    start=start_history,
    memory={"next_step": 0.1, "last": 1.0, "before": 2.0},
    remember=lambda constants, memory, seen, search: (
        0.1 / (1.0 + memory.before), seen.grad_sqnorm, memory.last,
    ),
)  # fmt: skip


def start_forgiving(constants, memory, seen):
    """A trial may be as bad as an average of past losses, less some decrease."""
    finite = batch_is_finite(seen.loss, seen.grad_sqnorm)
    active = finite & (seen.grad_sqnorm > 0.0)
    return Search(0.0, finite, False, where(active, constants.first, 0.0), 0, active)


def advance_forgiving(constants, memory, seen, search, trial_loss):
    level = maximum(memory.level, seen.loss) - constants.c * search.trial * seen.grad_sqnorm
    accepted = is_finite(trial_loss) & (trial_loss <= level)
    trials = search.trials + 1
    trial, over = where(accepted, search.trial, search.trial / 3.0), trials >= 60
    active = where(accepted | over, False, True)
    return Search(where(accepted, trial, 0.0), accepted, False, trial, trials, active)


FORGIVING = Rule(
    name="forgiving",
    formula=r"f(\theta_k - t g_k) \le \max\{C_k, f_k\} - c\,t\,\|g_k\|^2",
    reference="a toy",
    options=(
        Option("c", 0.3, validation.OPEN_UNIT, "sufficient decrease, in (0, 1)."),
        Option("first", 5.0, validation.POSITIVE, "first trial step, > 0."),
    ),
    reads=frozenset({"loss", "grad_sqnorm"}),
    resolve=constants("c", "first"),
    memory={"level": 0.0},
    start=start_forgiving,
    advance=advance_forgiving,
    remember=lambda constants, memory, seen, search: (0.75 * memory.level + 0.25 * seen.loss,),
)


def half(buffer, gradient, momentum):
    return 0.5 * gradient + 0.5 * (momentum * buffer + (1.0 - momentum) * gradient)


def move_half(buffer, gradient, step, momentum, weight):
    average = momentum * buffer + (1.0 - momentum) * gradient
    return -step * (0.5 * gradient + 0.5 * average), average


HALF_AND_HALF = Form(
    name="half and half",
    buffer="average",
    formula=r"d_k = \beta d_{k-1} + (1 - \beta) g_k, \quad "
    r"\theta_{k+1} = \theta_k - \gamma_k (g_k + d_k) / 2",
    reference="a toy",
    move=move_half,
    direction=half,
)


class Toy(NamedTuple):
    """A method and what it does in plain words."""

    method: Method
    options: dict
    choose: object
    """Makes the literal rule, with nothing to remember yet."""
    form: object = literal.heavy_ball


TOYS = {
    "rule": Toy(Method("History", "toy", "Looks two batches back.", HISTORY), {}, literal.history_steps),
    "momentum form": Toy(
        Method("HalfHistory", "toy", "The same, half averaged.", HISTORY, HALF_AND_HALF), {},
        literal.history_steps, literal.half_and_half),
    "line search": Toy(
        Method("HalfSearch", "toy", "A search, half averaged.", FORGIVING, HALF_AND_HALF),
        {"c": 0.5, "first": 0.3}, lambda: literal.forgiving_steps(0.5, 0.3), literal.half_and_half),
}  # fmt: skip


@contextmanager
def registered():
    """The toys are methods like all others within."""
    for toy in TOYS.values():
        methods.register(toy.method)
    try:
        yield
    finally:
        for toy in TOYS.values():
            del methods.METHODS[toy.method.name]
