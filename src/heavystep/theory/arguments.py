"""One text for each constant, so that none is described twice."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from heavystep.documentation import args_section

Function = TypeVar("Function", bound=Callable[..., Any])

_TEXTS = {
    "rule": '``"polyak"`` or ``"armijo"``.',
    "L": "smoothness of every sampled loss, > 0.",
    "mu": "strong convexity of F, in (0, L].",
    "rho": "weak growth factor, > 0.",
    "delta": "weak growth constant, >= 0.",
    "beta": "momentum, in [0, 1).",
    "c": "> 0 for Polyak, in (0, 1) for Armijo.",
    "gamma_max": "cap of the step, > 0.",
    "omega": "backtracking factor, in (0, 1); Armijo only.",
    "sigma2": "E[f(theta*; x) - f*(x)], >= 0; with a lower bound below f*, that bound's.",
    "dist0_sq": "||theta_0 - theta*||^2, >= 0.",
    "gap0": "F(theta_0) - F(theta*), >= 0.",
    "schedules": "eta_k, beta_k and gamma_max,k within Assumption 5.",
}


def documented(**texts: str) -> Callable[[Function], Function]:
    """Put the ``Args`` section before ``Raises`` and have all numbers arrive as float64.

    The texts are those above or those given.
    """

    def decorate(function: Function) -> Function:
        names = inspect.signature(function).parameters
        head, raises, tail = inspect.cleandoc(function.__doc__ or "").partition("Raises:")

        @functools.wraps(function)
        def with_floats(*args: Any, **numbers: Any) -> Any:
            return function(*args, **{name: as_float(value) for name, value in numbers.items()})

        with_floats.__doc__ = f"{head}{args_section(names, _TEXTS | texts)}\n\n{raises}{tail}"
        return cast(Function, with_floats)

    return decorate


def as_float(value: Any) -> Any:
    """A float where ``value`` is a single number of another library; all else as it is."""
    foreign = hasattr(value, "dtype") and getattr(value, "ndim", None) == 0
    return float(value) if foreign else value
