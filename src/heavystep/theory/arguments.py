"""Texts of the arguments that many results share, so that none is described twice."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from heavystep.documentation import args_section
from heavystep.theory.rules import RULES

Function = TypeVar("Function", bound=Callable[..., Any])

C_NONCONVEX = "; ".join(f"{rule.inequality} for {rule.title}" for rule in RULES.values()) + "."
"""The condition on c of Theorems 3 and 5."""


def c_from(least: str) -> str:
    """The text of c where a theorem asks for more than the rules themselves.

    >>> c_from("> 1/2")
    '> 1/2; below 1 for Armijo.'
    """
    bounded = (rule for rule in RULES.values() if rule.ranges["c"].high < float("inf"))
    return least + "".join(f"; below {r.ranges['c'].high:g} for {r.title}" for r in bounded) + "."


def _owners(constant: str) -> str:
    return " and ".join(rule.title for rule in RULES.values() if constant in rule.ranges)


_TEXTS = {
    "rule": " or ".join(f'``"{name}"``' for name in RULES) + ".",
    "L": "smoothness of every sampled loss, > 0.",
    "mu": "strong convexity of F, in (0, L].",
    "rho": "weak growth factor, > 0.",
    "delta": "weak growth constant, >= 0.",
    "beta": "momentum, in [0, 1).",
    "c": ", ".join(f"{rule.ranges['c']} for {rule.title}" for rule in RULES.values()) + ".",
    "gamma_max": "cap of the step, > 0.",
    "omega": f"backtracking factor, in (0, 1); {_owners('omega')} only.",
    "sigma2": "E[f(theta*; x) - f*(x)], >= 0; with a lower bound in place of f*, counted from it.",
    "dist0_sq": "||theta_0 - theta*||^2, >= 0.",
    "gap0": "F(theta_0) - F(theta*), >= 0.",
    "schedules": "eta_k, beta_k and gamma_max,k within Assumption 5.",
}

_RAISES = """Raises:
    ValueError: a condition fails; names the result, the inequality and the numbers."""


def documented(**texts: str) -> Callable[[Function], Function]:
    """Write the sections ``Args`` and ``Raises``, and take numbers of other libraries.

    The sections stand before the example. An argument has its text from ``texts``, or else from
    the table above. A numpy or torch scalar arrives in the function as a float.
    """

    def decorate(function: Function) -> Function:
        names = inspect.signature(function).parameters
        head, mark, example = inspect.cleandoc(function.__doc__ or "").partition(">>> ")

        @functools.wraps(function)
        def with_floats(*args: Any, **numbers: Any) -> Any:
            return function(*args, **{name: as_float(value) for name, value in numbers.items()})

        sections = f"{args_section(names, _TEXTS | texts)}\n\n{_RAISES}\n\n"
        with_floats.__doc__ = f"{head}{sections}{mark}{example}"
        return cast(Function, with_floats)

    return decorate


def as_float(value: Any) -> Any:
    """A float for a single number of another library; anything else unchanged."""
    foreign = hasattr(value, "dtype") and getattr(value, "ndim", None) == 0
    return float(value) if foreign else value
