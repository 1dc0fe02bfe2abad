"""Checks of arguments and their texts. An error names argument, symbol, range and value."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from math import inf
from numbers import Integral
from textwrap import fill
from typing import Any, NamedTuple, NoReturn

SYMBOLS = {
    "lr": "eta",
    "max_step": "gamma_max",
    "momentum": "beta",
    "decrease_factor": "omega",
    "lower_bound": "f_star",
    "steps_per_epoch": "n_b",
}
"""The paper's symbol for each argument that is not named after it."""


class Interval(NamedTuple):
    """A range of finite real numbers without its ends, unless they are ``closed``."""

    low: float
    high: float = inf
    closed_low: bool = False
    closed_high: bool = False

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, float):
            return False
        above = value >= self.low if self.closed_low else value > self.low
        return above and (value <= self.high if self.closed_high else value < self.high)

    def __str__(self) -> str:
        if self.high < inf:
            ends = "[" if self.closed_low else "(", "]" if self.closed_high else ")"
            return f"in {ends[0]}{self.low:g}, {self.high:g}{ends[1]}"
        if self.low > -inf:
            return f"{'>=' if self.closed_low else '>'} {self.low:g} and finite"
        return "finite"


FINITE = Interval(-inf)
POSITIVE = Interval(0.0)
NON_NEGATIVE = Interval(0.0, closed_low=True)
AT_LEAST_ONE = Interval(1.0, closed_low=True)
OPEN_UNIT = Interval(0.0, 1.0)
STEP = Interval(0.0, inf, closed_high=True)
"""Range of a remembered step: infinity stands for none so far."""
UNIT = Interval(0.0, 1.0, closed_low=True)
CLOSED_UNIT = Interval(0.0, 1.0, closed_low=True, closed_high=True)


def label(name: str, symbols: Mapping[str, str] = SYMBOLS) -> str:
    """The argument with its symbol, for error messages."""
    return f"{name} ({symbols[name]})" if name in symbols else name


def real(name: str, value: Any, interval: Interval, symbols: Mapping[str, str] = SYMBOLS) -> None:
    """Refuse a value that is not a real number in ``interval``.

    >>> real("lr", -0.1, NON_NEGATIVE)
    Traceback (most recent call last):
    ValueError: lr (eta) must be >= 0 and finite, got -0.1
    """
    if not isinstance(value, (bool, str, bytes)) and not getattr(value, "ndim", 0):
        try:
            number = float(value)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            pass
        else:
            if number in interval:
                return
            raise ValueError(f"{label(name, symbols)} must be {interval}, got {value!r}")
    raise TypeError(f"{label(name, symbols)} must be a real number ({interval}), got {value!r}")


def integer(name: str, value: Any, least: int) -> None:
    """Refuse anything but an int of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{label(name)} must be an int >= {least}, got {value!r}")
    if value < least:
        raise ValueError(f"{label(name)} must be >= {least}, got {value!r}")


def choice(name: str, value: Any, allowed: Iterable[Any]) -> None:
    """Refuse a value outside a short list.

    >>> choice("figure", "figur1", ("figure1", "table"))
    Traceback (most recent call last):
    ValueError: figure must be one of 'figure1', 'table', got 'figur1'; did you mean 'figure1'?
    """
    allowed = tuple(allowed)
    if not any(value is option or (value == option) is True for option in allowed):
        options = ", ".join(repr(option) for option in allowed)
        hint = did_you_mean(value, allowed)
        raise ValueError(f"{label(name)} must be one of {options}, got {value!r}{hint}")


def did_you_mean(value: Any, names: Iterable[Any]) -> str:
    """The end of a message that refuses a word: which of the names is near, if one is.

    >>> did_you_mean("mushroms", ("a9a", "mushrooms")), did_you_mean("x", ("a9a",))
    ("; did you mean 'mushrooms'?", '')
    """
    words = {name.lower(): name for name in names if isinstance(name, str)}
    close = get_close_matches(value.lower(), words, n=1) if isinstance(value, str) else []
    return f"; did you mean {words[close[0]]!r}?" if close else ""


def disagree(name: str, values: Iterable[Any]) -> NoReturn:
    """Refuse parameter groups with different values of an option they must share."""
    seen = ", ".join(repr(value) for value in values)
    raise ValueError(
        f"{label(name)} must be the same in all parameter groups, got {seen}: "
        "one step size is chosen for the whole parameter vector, and only lr and "
        "weight_decay may differ by group"
    )


def args_section(names: Iterable[str], texts: Mapping[str, str]) -> str:
    """The section of a docstring that lists ``names`` with their ``texts``.

    >>> args_section(["c"], {"c": "> 0."}).splitlines()
    ['Args:', '    c: > 0.']
    """
    begin, go_on = " " * 4, " " * 8
    lines = (fill(f"{name}: {texts[name]}", 96, initial_indent=begin, subsequent_indent=go_on,
                  break_on_hyphens=False) for name in names)  # fmt: skip
    return "Args:\n" + "\n".join(lines)
