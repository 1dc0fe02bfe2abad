"""Arguments that many results share: each has its text and its range once, here."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar, cast

from heavystep.documentation import args_section
from heavystep.theory import conditions
from heavystep.theory.rules import RULES, checked
from heavystep.validation import NON_NEGATIVE, POSITIVE, UNIT, Interval

Function = TypeVar("Function", bound=Callable[..., Any])

C_NONCONVEX = "; ".join(f"{rule.inequality} for {rule.title}" for rule in RULES.values()) + "."
"""The condition on c of Theorems 3 and 5."""


class Argument(NamedTuple):
    """Text and range of an argument; None: the function checks it itself."""

    text: str
    range: Interval | None = None


def c_from(least: str) -> str:
    """The text of c where a theorem asks for more than the rules themselves."""
    bounded = (rule for rule in RULES.values() if rule.ranges["c"].high < float("inf"))
    return least + "".join(f"; below {r.ranges['c'].high:g} for {r.title}" for r in bounded) + "."


_OWNERS = " and ".join(rule.title for rule in RULES.values() if "omega" in rule.ranges)
ARGUMENTS: Mapping[str, Argument] = {
    "rule": Argument(" or ".join(f'``"{name}"``' for name in RULES) + "."),
    "L": Argument("smoothness of every sampled loss, > 0.", POSITIVE),
    "mu": Argument("strong convexity of F, in (0, L].", POSITIVE),
    "rho": Argument("weak growth factor, > 0.", POSITIVE),
    "delta": Argument("weak growth constant, >= 0.", NON_NEGATIVE),
    "beta": Argument("momentum, in [0, 1).", UNIT),
    "c": Argument(
        ", ".join(f"{rule.ranges['c']} for {rule.title}" for rule in RULES.values()) + "."
    ),
    "gamma_max": Argument("cap of the step, > 0.", POSITIVE),
    "omega": Argument(f"backtracking factor, in (0, 1); {_OWNERS} only."),
    "sigma2": Argument(
        "E[f(theta*; x) - f*(x)], >= 0; with a lower bound in place of f*, counted from it.",
        NON_NEGATIVE,
    ),
    "dist0_sq": Argument("||theta_0 - theta*||^2, >= 0.", NON_NEGATIVE),
    "gap0": Argument("F(theta_0) - F(theta*), >= 0.", NON_NEGATIVE),
    "schedules": Argument("eta_k, beta_k and gamma_max,k within Assumption 5."),
}
_RAISES = """Raises:
    ValueError: a condition fails; names the result, the inequality and the numbers."""


def check(result: str, given: Mapping[str, Any], known: Mapping[str, Argument] = ARGUMENTS) -> None:
    """Refuse arguments out of range; errors name ``result``."""
    for name, value in given.items():
        if (interval := known[name].range) is not None:
            conditions.real(result, interval, **{name: value})
    if "rule" in given:
        checked(result, given["rule"], c=given.get("c"), omega=given.get("omega"))


def documented(result: str = "", /, **own: str | Argument) -> Callable[[Function], Function]:
    """Write the sections ``Args`` and ``Raises``, check ranges, take numbers of other libraries.

    An argument has its text and range from ``own``, or else from the table above. Without a
    ``result`` nothing is checked here; a default is never checked.
    """

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        known = {name: ARGUMENTS.get(name, Argument("")) for name in signature.parameters}
        for name, given in own.items():
            known[name] = known[name]._replace(text=given) if isinstance(given, str) else given
        defaults = {name: p.default for name, p in signature.parameters.items()}
        head, mark, example = inspect.cleandoc(function.__doc__ or "").partition(">>> ")

        @functools.wraps(function)
        def with_floats(*args: Any, **numbers: Any) -> Any:
            numbers = {name: as_float(value) for name, value in numbers.items()}
            if result:
                given = signature.bind(*args, **numbers).arguments
                set_here = {n: value for n, value in given.items() if value is not defaults[n]}
                check(result, set_here, known)
            return function(*args, **numbers)

        texts = {name: argument.text for name, argument in known.items()}
        sections = f"{args_section(signature.parameters, texts)}\n\n{_RAISES}\n\n"
        with_floats.__doc__ = f"{head}{sections}{mark}{example}"
        return cast(Function, with_floats)

    return decorate


def as_float(value: Any) -> Any:
    """A float for a single number of another library; anything else unchanged."""
    foreign = hasattr(value, "dtype") and getattr(value, "ndim", None) == 0
    return float(value) if foreign else value
