"""Docstrings of optimizers: the formula of the rule and one text for each argument."""

import inspect
from typing import Any, TypeVar

from heavystep.documentation import args_section
from heavystep.methods import Method
from heavystep.optim.groups import EVERY_OPTIMIZER, EVERY_SEARCH, common_options

T = TypeVar("T", bound=type)

TEXTS = {
    "params": "parameters to optimize, or dicts that define parameter groups.",
    "buffers": "buffers that a forward pass changes in place, such as BatchNorm statistics: pass "
    "``model.buffers()``, or ``model.buffers`` if the model changes device or format later. They "
    "change once a step, however many trials are made, and not at all if the batch is refused.",
    "process_group": "the processes that train one model together: their losses are averaged and "
    "all take the same step. None: all of torch.distributed, if it is initialised.",
    **{option.name: option.text for option in (*EVERY_OPTIMIZER, *EVERY_SEARCH)},
}
"""What the driver adds to the options of a method."""


def documented(cls: T) -> T:
    """Put the formulas and the ``Args`` section of its method into a class docstring.

    The formulas come after the first paragraph.
    """
    method: Method = cls.method  # type: ignore[attr-defined]
    summary, _, rest = inspect.cleandoc(cls.__doc__ or "").partition("\n\n")
    texts = TEXTS | {option.name: option.text for option in method.options}
    arguments = args_section(inspect.signature(cls).parameters, texts)
    parts = [summary, formulas(method), rest, f"Reference: {method.reference}.", arguments]
    cls.__doc__ = "\n\n".join(filter(None, parts)) + "\n"
    return cls


def formulas(method: Method) -> str:
    """The rule, the momentum form and the diagonal of a method, as a docstring shows them."""
    shown = (f".. math:: {formula}" for formula in method.formulas)
    return "\n\n".join([*shown, *method.explained])


def signature_of(method: Method) -> inspect.Signature:
    """The arguments of a method's optimizer: lr and momentum by position, all else by name."""
    names = inspect.Parameter

    def parameter(name: str, default: Any, kind: Any = names.KEYWORD_ONLY) -> inspect.Parameter:
        return names(name, kind, default=names.empty if default is ... else default)

    first = [names("params", names.POSITIONAL_OR_KEYWORD)]
    first += [
        parameter(option.name, option.default, names.POSITIONAL_OR_KEYWORD)
        for option in method.options
        if option.name in ("lr", "momentum")
    ]
    options = [o for o in method.options if o.name not in ("lr", "momentum")]
    last = ["buffers"] if method.rule.searches else []
    return inspect.Signature(
        first
        + [parameter(o.name, o.default) for o in (*options, *common_options(method))]
        + [parameter(name, None) for name in (*last, "process_group")]
    )
