"""Arguments that an optimizer does not have: one line that says what it has instead."""

import inspect
from collections.abc import Iterable
from functools import wraps
from typing import Any, TypeVar

from heavystep.methods import Method

T = TypeVar("T", bound=type)

ELSEWHERE = {
    "betas": ("momentum", "beta2"),
    "eps": ("diagonal_eps",),
    "learning_rate": ("lr",),
    "beta": ("momentum",),
    "max_lr": ("max_step",),
    "f_star": ("lower_bound",),
}
"""What other optimizers, and the paper, call these options."""


def refuse_unknown(method: Method, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse names of arguments that an optimizer does not have.

    Args:
        method: of the optimizer.
        given: the names.
        known: those of its arguments.

    Raises:
        TypeError: there is one that it does not have.
    """
    names = [name for name in known if name not in ("self", "params")]
    for name in given:
        if name in names or name == "params":
            continue
        here = [each for each in ELSEWHERE.get(name, ()) if each in names]
        if name in method.fixed:
            hint = f"it is always {method.fixed[name]!r} there"
        elif here:
            hint = f"here it is called {' and '.join(here)}"
        else:
            hint = f"it has {', '.join(names)}"
        raise TypeError(f"{method.name} has no option {name!r}: {hint}")


def refusing_unknown(cls: T) -> T:
    """Let a class of optimizers refuse such arguments before Python does, in its own words."""
    made: Any = cls.__init__  # type: ignore[misc]
    known = inspect.signature(made).parameters

    @wraps(made)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        refuse_unknown(type(self).method, kwargs, known)
        made(self, *args, **kwargs)

    cls.__init__ = __init__  # type: ignore[misc]
    return cls
