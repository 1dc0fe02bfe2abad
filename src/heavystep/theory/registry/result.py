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
    """From admissible parameters to what the result gives and what is known."""


@dataclass(frozen=True)
class Result:
    """One result of the paper."""

    id: str
    """As the paper counts: ``"Theorem 2"``."""
    name: str
    """Name on the command line."""
    statement: str
    """In one line."""
    assumptions: tuple[str, ...]
    function: Callable[..., Any]
    location: str
    """Section, and the label in the paper's source."""
    tested: str
    """How it is tested."""
    reductions: tuple[Reduction, ...] = ()
    readings: tuple[str, ...] = ()
    """Where the statement needed a reading, was left open or can be sharpened."""
    scalar: bool = True
    """Whether the function takes numbers only, so that the command line can call it."""
    grid: bool = True
    """Whether it says something at each of several k."""
    bound_arguments: tuple[str, ...] = ()
    """What its ``bound`` needs besides k."""


def call(function: Callable[..., Any], parameters: Mapping[str, Any], **changes: Any) -> Any:
    """Call with those of ``parameters`` that the function takes, some of them changed."""
    values = {**parameters, **changes}
    names = inspect.signature(function).parameters
    return function(**{name: value for name, value in values.items() if name in names})
