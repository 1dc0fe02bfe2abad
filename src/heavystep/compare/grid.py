"""The constants that a method is tried with: six decades of its main one."""

from math import inf
from typing import Any

from heavystep.methods import Method
from heavystep.methods.effect import without_effect
from heavystep.rules import REQUIRED, Option
from heavystep.validation import Interval

DECADES = 3
"""How many there are on each side of the default."""
WITHOUT_DEFAULT = 0.1
"""Where the grid is centred if the user must give the option, as with the step of heavy ball, or if
the default is no number."""
WITHOUT_LARGEST_STEP = 1000.0
"""The same, if by default no step is too large: the grid is then six decades from 1 on."""
TRIALS = 10_000
"""How long a line search may go on. Its limit is there to end it, and no constant to compare."""


def main_option(method: Method) -> Option:
    """The option that a user would tune.

    Raises:
        ValueError: the method has none.
    """
    for option in method.options:
        if option.name == method.main:
            return option
    raise ValueError("it has no constant that could be varied")


def centre_of(method: Method) -> float:
    """The value in the middle of the grid: the default, where that is a number above 0.

    >>> from heavystep.methods import method_of
    >>> centre_of(method_of("MomSPS")), centre_of(method_of("SHB")), centre_of(method_of("SHBAdam"))
    (10.0, 0.1, 1000.0)
    """
    option = main_option(method)
    default = option.default
    number = isinstance(default, float | int) and not isinstance(default, bool)
    if number and 0.0 < default < inf:
        return _rounded(default)
    return WITHOUT_LARGEST_STEP if option.name == "max_step" else WITHOUT_DEFAULT


def needed(method: Method) -> dict[str, float]:
    """The main constant at its centre, if users must give it; nothing else.

    >>> from heavystep.methods import method_of
    >>> needed(method_of("SHB")), needed(method_of("SPS"))
    ({'lr': 0.1}, {})
    """
    option = main_option(method)
    return {option.name: centre_of(method)} if option.default is REQUIRED else {}


def around(centre: float, per_decade: int = 1) -> tuple[float, ...]:
    """Six decades around a value, evenly on a logarithmic scale.

    A finer grid has the values of a coarser one, if the one number divides the other.

    Args:
        centre: > 0.
        per_decade: how many values; 0: only the ends and the centre.

    >>> around(1.0, 0), len(around(0.1, 2))
    ((0.001, 1.0, 1000.0), 13)
    """
    steps = per_decade * DECADES or 1
    powers = (DECADES * place / steps for place in range(-steps, steps + 1))
    return tuple(_rounded(centre * 10.0**power) for power in powers)


def _rounded(value: float) -> float:
    """To twelve digits, so that a value in a grid is the one that a user would write."""
    return float(f"{value:.12g}")


def grid_of(method: Method, per_decade: int = 1) -> tuple[float, ...]:
    """Six decades around the default; values out of range are left out.

    Args:
        method: which one.
        per_decade: see :func:`around`.

    Raises:
        ValueError: the method has no main constant, or it is not a real number.

    >>> from heavystep.methods import method_of
    >>> grid_of(method_of("L4"))
    (0.00015, 0.0015, 0.015, 0.15, 1.5, 15.0, 150.0)
    """
    option, centre = main_option(method), centre_of(method)
    if not isinstance(option.allowed, Interval):
        raise ValueError(f"its main constant {option.name} is not a real number")
    return tuple(value for value in around(centre, per_decade) if value in option.allowed)


def options_at(method: Method, value: float, batches: int) -> dict[str, Any]:
    """The options with which a method is tried: all others have their defaults.

    Args:
        method: which one.
        value: of its main constant.
        batches: how many make an epoch; methods that count them are told.
    """
    usual = {option.name: option.default for option in method.options}
    known = {"steps_per_epoch": batches, "max_trials": TRIALS, method.main: value}
    given = {name: each for name, each in known.items() if name in usual}
    idle = without_effect(method, usual | given)
    return {name: each for name, each in given.items() if name not in idle}
