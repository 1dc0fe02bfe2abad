"""Rules and momentum forms inside kernels: what a kernel calls, and which functions that is.

A kernel knows a rule and a form by their types only (:mod:`heavystep.simulation.kernel_types`); the
stubs below are replaced by the functions of the rule and the form when it is compiled.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from heavystep.momentum import Form
from heavystep.rules import Rule
from heavystep.simulation.configuration import DIRECTION
from heavystep.simulation.kernel_cache import reduction
from heavystep.simulation.kernel_types import kernel_type
from heavystep.simulation.numba_rules import form_functions, rule_functions
from heavystep.simulation.terms import Function, implement


def constants_at(rule: Any, table: Any, step: Any) -> Any:
    """The constants of one step, from the row of a table."""
    raise NotImplementedError


def recall(rule: Any, numbers: Any) -> Any:
    """The memory of the rule, from the array that holds it between steps."""
    raise NotImplementedError


def keep(rule: Any, numbers: Any, memory: Any) -> Any:
    """Write what the rule remembers into that array."""
    raise NotImplementedError


def look(rule: Any, form: Any, buffer: Any, g: Any, momentum: Any) -> Any:
    """||d||^2 and <g, d> for the direction d of the form; 0 if the rule does not read them."""
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


def move(form: Any, buffer: Any, gradient: Any, step: Any, momentum: Any) -> Any:
    """Motion and new buffer of one parameter."""
    raise NotImplementedError


def direction(form: Any, buffer: Any, gradient: Any, momentum: Any) -> Any:
    """What the step size multiplies, for one parameter."""
    raise NotImplementedError


@cache
def kernel_rule(rule: Rule) -> Any:
    """What stands for the rule among the arguments of a kernel."""
    constants, memory = rule.constants or (), tuple(rule.memory)
    looks = bool(DIRECTION & rule.reads)
    begin, skip, go_on, retain = rule.start, rule.skip, rule.advance, rule.remember
    functions = rule_functions(rule)
    roles = [function.__qualname__ for function in (begin, skip, go_on, retain)]
    kind = kernel_type("Rule", functions, (rule.name, constants, memory, looks, roles))

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
            look: _look if looks else _look_away,
            start: _start,
            advance: _advance,
            remember: _remember,
        },
    )
    return kind()


@cache
def kernel_form(form: Form) -> Any:
    """What stands for the momentum form among the arguments of a kernel."""
    moved, along = form.move, form.direction
    functions = form_functions(form)
    kind = kernel_type("Form", functions, (form.name, moved.__qualname__, along.__qualname__))

    def _move(form: Any, buffer: Any, gradient: Any, step: Any, momentum: Any) -> Any:
        return moved(buffer, gradient, step, momentum)

    def _direction(form: Any, buffer: Any, gradient: Any, momentum: Any) -> Any:
        return along(buffer, gradient, momentum)

    implement(kind, {move: _move, direction: _direction})
    return kind()


def _look(rule: Any, form: Any, buffer: Any, g: Any, momentum: Any) -> Any:
    return _products(form, buffer, g, momentum)


def _look_away(rule: Any, form: Any, buffer: Any, g: Any, momentum: Any) -> Any:
    return 0.0, 0.0


@reduction
def _products(form: Any, buffer: Any, g: Any, momentum: Any) -> Any:
    square, slope = 0.0, 0.0
    for j in range(g.shape[0]):
        d = direction(form, buffer[j], g[j], momentum)
        square += d * d
        slope += g[j] * d
    return square, slope


# Named tuples are put together element by element: a view of a row would be reference-counted at
# every step, and numba can neither unpack an array into a named tuple nor loop over mixed types.
def _row_reader(kind: Any, names: Sequence[str]) -> Function:
    values = ", ".join(f"table[step, {place}]" for place in range(len(names)))
    return _function(f"def read(rule, table, step): return kind({values})", "read", kind=kind)


def _reader(kind: Any, names: Sequence[str]) -> Function:
    values = ", ".join(f"numbers[{place}]" for place in range(len(names)))
    return _function(f"def read(rule, numbers): return kind({values})", "read", kind=kind)


def _writer(names: Sequence[str]) -> Function:
    lines = [f" numbers[{place}] = memory[{place}]" for place in range(len(names))]
    source = "\n".join(["def write(rule, numbers, memory):", *lines, " return 0"])
    return _function(source, "write")


def _function(source: str, name: str, **names: Any) -> Function:
    exec(source, names)
    function: Function = names[name]
    return function
