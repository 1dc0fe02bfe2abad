"""The formulas of rules and momentum forms inside numba kernels: the same functions, compiled.

:func:`teach` makes a function callable from a kernel together with all that it calls, so that no
list of functions has to be kept; :mod:`heavystep.simulation.choice` does so for the rule of every
run. The functions of the methods in the registry are taught when this module is imported.
"""

from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from numba.extending import overload, register_jitable

from heavystep import rules
from heavystep.methods import METHODS
from heavystep.momentum import Diagonal, Form
from heavystep.rules import Rule, Search
from heavystep.simulation.truths import as_four, as_truths, is_wide

_PRIMITIVES: set[Any] = {rules.where, rules.minimum, rules.maximum, rules.some}
_TAUGHT: set[FunctionType] = set()


def complete_search(
    step: Any,
    accepted: Any,
    capped: Any,
    trial: Any = 0.0,
    trials: Any = 0,
    active: Any = False,
    trial_loss: Any = 0.0,
    momentum: Any = 0.0,
) -> Search:
    """What :class:`Search` makes of its arguments, with one type for each field.

    Numba knows no defaults of named tuples, and a variable must keep its type from trial to trial.
    Of four seeds each field has four numbers or answers, if one has.
    """
    raise NotImplementedError


@overload(complete_search, strict=False)
def _complete(
    step: Any,
    accepted: Any,
    capped: Any,
    trial: Any = 0.0,
    trials: Any = 0,
    active: Any = False,
    trial_loss: Any = 0.0,
    momentum: Any = 0.0,
) -> Any:
    wide = is_wide(step, accepted, capped, trial, trials, active, trial_loss, momentum)
    real, whole, truth = (as_four, as_four, as_truths) if wide else (float, int, bool)

    def complete(
        step: Any,
        accepted: Any,
        capped: Any,
        trial: Any = 0.0,
        trials: Any = 0,
        active: Any = False,
        trial_loss: Any = 0.0,
        momentum: Any = 0.0,
    ) -> Any:
        return Search(
            real(step), truth(accepted), truth(capped), real(trial), whole(trials), truth(active),
            real(trial_loss), real(momentum),
        )  # fmt: skip

    return complete


@register_jitable
def widened(search: Any) -> Search:
    """A search of four seeds, also of a rule that decides the same for all of them."""
    return Search(
        as_four(search.step), as_truths(search.accepted), as_truths(search.capped),
        as_four(search.trial), as_four(search.trials), as_truths(search.active),
        as_four(search.trial_loss), as_four(search.momentum),
    )  # fmt: skip


def teach(*functions: Callable[..., Any]) -> list[FunctionType]:
    """Make functions callable from kernels, with all that they call; returns all of them.

    Raises:
        TypeError: one is callable, but no function of which there is code to compile.
    """
    for function in functions:
        if not isinstance(function, FunctionType):
            raise TypeError(f"a plain function is needed, which can be compiled, got {function!r}")
    reached: dict[FunctionType, None] = {}
    waiting: list[Any] = list(functions)
    while waiting:
        function = waiting.pop()
        if not isinstance(function, FunctionType) or function in reached:
            continue
        if function in _PRIMITIVES or (function.__module__ or "").startswith("numpy"):
            continue
        reached[function] = None
        waiting += _called(function)
    for function in reached:
        if function not in _TAUGHT:
            _TAUGHT.add(function)
            overload(function, strict=False)(_always(_with_complete_searches(function)))
    return list(reached)


def rule_functions(rule: Rule) -> list[FunctionType]:
    """All functions that a kernel with this rule calls; it may do so from now on."""
    return teach(rule.start, rule.skip, rule.advance, rule.remember, rule.weigh)


def form_functions(form: Form) -> list[FunctionType]:
    """All functions that a kernel with this momentum form calls; it may do so from now on."""
    return teach(form.move, form.direction)


def diagonal_functions(diagonal: Diagonal) -> list[FunctionType]:
    """All functions that a kernel with this diagonal calls; it may do so from now on."""
    return teach(diagonal.average, diagonal.weigh, diagonal.divisor)


def _called(function: FunctionType) -> Iterator[Any]:
    """What the names in a function stand for: globals, attributes of modules, enclosed values."""
    names = set(_names(function.__code__))
    found = [function.__globals__.get(name) for name in names]
    yield from found
    for module in found:
        if isinstance(module, ModuleType):
            yield from (getattr(module, name, None) for name in names)
    yield from (cell.cell_contents for cell in function.__closure__ or ())


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _with_complete_searches(function: FunctionType) -> FunctionType:
    """The same code, in which :class:`Search` is :func:`complete_search`."""
    names = {
        name: complete_search if value is Search else value
        for name, value in function.__globals__.items()
    }
    return FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )


def _always(function: FunctionType) -> Callable[..., FunctionType]:
    return lambda *arguments: function


teach(rules.batch_is_finite, rules.is_finite)  # which the iteration calls itself
for _method in METHODS.values():
    rule_functions(_method.rule)
    form_functions(_method.form)
    if _method.diagonal is not None:
        diagonal_functions(_method.diagonal)
