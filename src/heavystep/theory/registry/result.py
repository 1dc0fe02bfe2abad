"""One entry of the registry: a lemma, an assumption or a theorem, and what it must reduce to."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Reduction:
    """A special case in which a result must give a known value."""

    text: str
    sides: Callable[[Mapping[str, Any]], tuple[Any, Any]]
    """Takes admissible parameters; returns what the result gives and what it must give."""


@dataclass(frozen=True)
class Result:
    """One result of the paper."""

    id: str
    """Its name in the paper, such as ``"Theorem 2"``."""
    name: str
    """Its name on the command line."""
    statement: str
    """What it says, in one line."""
    assumptions: tuple[str, ...]
    function: Callable[..., Any]
    location: str
    """The section, and the label in the paper's source."""
    tested: str
    """How it is tested."""
    reductions: tuple[Reduction, ...] = ()
    readings: tuple[str, ...] = ()
    """Remarks where the statement is ambiguous, leaves something open or can be sharpened."""
    scalar: bool = True
    """Whether the function takes numbers only, so that the command line can call it."""
    grid: bool = True
    """Whether it makes a statement for each k."""
    bound_arguments: tuple[str, ...] = ()
    """What its ``bound`` needs besides k."""


def call(function: Callable[..., Any], parameters: Mapping[str, Any], **changes: Any) -> Any:
    """Call ``function`` with those of ``parameters``, after ``changes``, that it takes."""
    values = {**parameters, **changes}
    names = inspect.signature(function).parameters
    return function(**{name: value for name, value in values.items() if name in names})
