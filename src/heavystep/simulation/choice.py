"""Rules inside kernels: what a kernel calls, and which functions that is.

Momentum forms are in :mod:`heavystep.simulation.forms`, diagonals in
:mod:`heavystep.simulation.stretching`. A kernel knows all of them by their types only
(:mod:`heavystep.simulation.kernel_types`); stubs as those below are replaced by the functions of
the rule, the form and the diagonal when it is compiled.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from heavystep.rules import DIRECTION, Rule
from heavystep.simulation.forms import direction
from heavystep.simulation.kernel_types import kernel_type
from heavystep.simulation.numba_rules import rule_functions
from heavystep.simulation.products import products_of
from heavystep.simulation.stretching import divided, stretches
from heavystep.simulation.terms import Function, function_of, implement


def constants_at(rule: Any, table: Any, step: Any) -> Any:
    """The constants of one step, from the row of a table."""
    raise NotImplementedError


def recall(rule: Any, numbers: Any) -> Any:
    """The memory of the rule, from the array that holds it between steps."""
    raise NotImplementedError


def keep(rule: Any, numbers: Any, memory: Any) -> Any:
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
    functions = rule_functions(rule)
    roles = [function.__qualname__ for function in (begin, skip, go_on, retain)]
    kind = kernel_type(
        "Rule", functions, (rule.name, constants, memory, reads, rule.along, rule.steers, roles)
    )

    def _start(rule: Any, constants: Any, memory: Any, seen: Any) -> Any:
        return skip(constants, memory, seen, begin(constants, memory, seen))

    def _advance(rule: Any, constants: Any, memory: Any, seen: Any, search: Any, loss: Any) -> Any:
        return go_on(constants, memory, seen, search, loss)

    def _remember(rule: Any, constants: Any, memory: Any, seen: Any, search: Any) -> Any:
        return retain(constants, memory, seen, search)

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
        },
    )
    return kind()


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
    values = ", ".join(f"numbers[{place}]" for place in range(len(names)))
    return function_of(f"def read(rule, numbers): return kind({values})", "read", kind=kind)


def _writer(names: Sequence[str]) -> Function:
    lines = [f" numbers[{place}] = memory[{place}]" for place in range(len(names))]
    source = "\n".join(["def write(rule, numbers, memory):", *lines, " return 0"])
    return function_of(source, "write")
