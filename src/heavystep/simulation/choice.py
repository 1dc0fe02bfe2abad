"""Rules inside kernels: what a kernel calls, and which functions that is.

Momentum forms are in :mod:`heavystep.simulation.forms`, diagonals in
:mod:`heavystep.simulation.stretching`. A kernel knows all of them by their types only
(:mod:`heavystep.simulation.kernel_types`); stubs as those below are replaced by the functions of
the rule, the form and the diagonal when it is compiled.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from numba import typeof
from numba.core import types

from heavystep.rules import DIRECTION, Rule, Seen
from heavystep.simulation.forms import direction
from heavystep.simulation.fours import FOUR, fits
from heavystep.simulation.kernel_types import kernel_type
from heavystep.simulation.numba_rules import rule_functions, widened
from heavystep.simulation.products import products_of
from heavystep.simulation.stretching import divided, stretches
from heavystep.simulation.terms import Function, function_of, implement
from heavystep.simulation.truths import as_four
from heavystep.simulation.widths import Four, column, put_column

TYPE_OF: Any = typeof
"""Which has no types itself."""
_RULES: dict[type, Rule] = {}
PLAIN = frozenset({"loss", "lower_bound", "grad_sqnorm", "loss_eps"})


def constants_at(rule: Any, table: Any, step: Any) -> Any:
    """The constants of one step, from the row of a table."""
    raise NotImplementedError


def recall(rule: Any, width: Any, numbers: Any, lane: Any) -> Any:
    """The memory of the rule, from the array that holds it between steps; a column is a seed's.

    That of the seed ``lane``, or of the four seeds from there on if that is the ``width``.
    """
    raise NotImplementedError


def keep(rule: Any, width: Any, numbers: Any, lane: Any, memory: Any) -> Any:
    """Write what the rule remembers into that array."""
    raise NotImplementedError


def look(
    rule: Any, kinds: Any, theta: Any, buffer: Any, g: Any, divisors: Any, momentum: Any
) -> Any:
    """The inner products of :data:`heavystep.rules.PRODUCTS` beside ||g||^2, in their order.

    0 for those that the rule does not read.
    """
    raise NotImplementedError


def steered(rule: Any, search: Any, momentum: Any) -> Any:
    """The momentum of the step: the rule's own, if it steers."""
    raise NotImplementedError


def weigh(rule: Any, constants: Any, memory: Any) -> Any:
    """The weight of the next point in the average, for a momentum form that averages."""
    raise NotImplementedError


def aim(rule: Any, kinds: Any, buffer: Any, g: Any, divisors: Any, momentum: Any, way: Any) -> Any:
    """The vector that trials go along: ``g`` itself, or ``way`` with another one written to it."""
    raise NotImplementedError


def start(rule: Any, constants: Any, memory: Any, seen: Any) -> Any:
    """Begin to choose a step; a closed form has then done so."""
    raise NotImplementedError


def advance(rule: Any, constants: Any, memory: Any, seen: Any, search: Any, loss: Any) -> Any:
    """Take in the loss at the trial step."""
    raise NotImplementedError


def remember(rule: Any, constants: Any, memory: Any, seen: Any, search: Any) -> Any:
    """The rule's memory after the step, as a plain tuple."""
    raise NotImplementedError


@cache
def kernel_rule(rule: Rule) -> Any:
    """What stands for the rule among the arguments of a kernel."""
    constants, memory = rule.constants or (), tuple(rule.memory)
    reads = tuple(sorted(rule.reads))
    begin, skip, go_on, retain = rule.start, rule.skip, rule.advance, rule.remember
    weighed = rule.weigh
    functions = rule_functions(rule)
    roles = [function.__qualname__ for function in (begin, skip, go_on, retain, weighed)]
    kind = kernel_type(
        "Rule", functions, (rule.name, constants, memory, reads, rule.along, rule.steers, roles)
    )

    def _start(rule: Any, constants: Any, memory: Any, seen: Any) -> Any:
        return skip(constants, memory, seen, begin(constants, memory, seen))

    def _advance(rule: Any, constants: Any, memory: Any, seen: Any, search: Any, loss: Any) -> Any:
        return go_on(constants, memory, seen, search, loss)

    def _remember(rule: Any, constants: Any, memory: Any, seen: Any, search: Any) -> Any:
        return retain(constants, memory, seen, search)

    def _weigh(rule: Any, constants: Any, memory: Any) -> Any:
        return weighed(constants, memory)

    implement(
        kind,
        {
            constants_at: _row_reader(rule.Constants, constants),
            recall: _reader(rule.Memory, memory),
            keep: _writer(memory),
            look: products_of(rule),
            steered: _steered if rule.steers else _not_steered,
            aim: _along_direction if rule.along == DIRECTION else _along_gradient,
            start: _start,
            advance: _advance,
            remember: _remember,
            weigh: _weigh,
        },
    )
    _RULES[kind] = rule
    return kind()


def _probe(rule: Any, table: Any, numbers: Any, loss: Any) -> Any:
    """All that a rule is asked for, of four seeds at once."""
    constants, memory = constants_at(rule, table, 0), recall(rule, Four(), numbers, 0)
    seen = Seen(loss, loss, loss, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    as_four(weigh(rule, constants, memory))
    search = widened(start(rule, constants, memory, seen))
    search = widened(advance(rule, constants, memory, seen, search, loss))
    return keep(rule, Four(), numbers, 0, remember(rule, constants, memory, seen, search))


@cache
def decides_for_four(kind: type) -> bool:
    """Whether the rule of this type can choose the steps of four seeds at once.

    If its formulas ask nothing that has one answer for one number, as ``if`` does; if trials go
    along the gradient, and if it reads no more of a batch than its loss and its squared norm.
    """
    rule, table = _RULES[kind], types.float64[:, ::1]
    plain = rule.along != DIRECTION and not rule.steers and not rule.reads - PLAIN
    return plain and fits(_probe, TYPE_OF(kind()), table, table, FOUR)


def _steered(rule: Any, search: Any, momentum: Any) -> Any:
    return search.momentum


def _not_steered(rule: Any, search: Any, momentum: Any) -> Any:
    return momentum


def _along_gradient(
    rule: Any, kinds: Any, buffer: Any, g: Any, divisors: Any, momentum: Any, way: Any
) -> Any:
    if stretches(kinds.diagonal):
        for j in range(g.shape[0]):
            way[j] = divided(kinds.diagonal, g[j], divisors, j)
        return way
    return g


def _along_direction(
    rule: Any, kinds: Any, buffer: Any, g: Any, divisors: Any, momentum: Any, way: Any
) -> Any:
    for j in range(g.shape[0]):
        d = direction(kinds.form, buffer[j], g[j], momentum)
        way[j] = divided(kinds.diagonal, d, divisors, j)
    return way


# Named tuples are put together element by element: a view of a row would be reference-counted at
# every step, and numba can neither unpack an array into a named tuple nor loop over mixed types.
def _row_reader(kind: Any, names: Sequence[str]) -> Function:
    values = ", ".join(f"table[step, {place}]" for place in range(len(names)))
    return function_of(f"def read(rule, table, step): return kind({values})", "read", kind=kind)


def _reader(kind: Any, names: Sequence[str]) -> Function:
    values = ", ".join(f"column(width, numbers, lane, {place})" for place in range(len(names)))
    source = f"def read(rule, width, numbers, lane): return kind({values})"
    return function_of(source, "read", kind=kind, column=column)


def _writer(names: Sequence[str]) -> Function:
    put = " put_column(width, numbers, lane, {0}, memory[{0}])"
    lines = [put.format(place) for place in range(len(names))]
    source = "\n".join(["def write(rule, width, numbers, lane, memory):", *lines, " return 0"])
    return function_of(source, "write", put_column=put_column)
