"""The decorator that makes a function a result: it checks ranges, documents and registers."""

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from textwrap import fill
from typing import Any, TypeVar, cast

from heavystep.theory import conditions
from heavystep.theory.rules import RULES, checked
from heavystep.validation import NON_NEGATIVE, POSITIVE, UNIT, Interval, args_section

Function = TypeVar("Function", bound=Callable[..., Any])
Argument = tuple[str, Interval | None]
"""The text of an argument and its range, or None where the function checks it."""

SMOOTH, CONVEX, NOISE = "samples L-smooth", "samples convex", "sigma^2 finite"
GROWTH = "E ||grad f||^2 <= rho ||grad F||^2 + delta"
SMOOTH_STEPS = (SMOOTH, "c in (0, 1) and omega in (0, 1) for Armijo")
HEAVY_BALL = ("theta_{-1} = theta_0", "constant beta")
ON_C = ", ".join(f"{rule.inequality} ({rule.title})" for rule in RULES.values())
C_NONCONVEX = "; ".join(f"{rule.inequality} for {rule.title}" for rule in RULES.values()) + "."
ARGUMENTS: dict[str, Argument] = {
    "rule": (" or ".join(f'``"{name}"``' for name in RULES) + ".", None),
    "L": ("smoothness of every sampled loss, > 0.", POSITIVE),
    "mu": ("strong convexity of F, in (0, L].", POSITIVE),
    "rho": ("weak growth factor, > 0.", POSITIVE),
    "delta": ("weak growth constant, >= 0.", NON_NEGATIVE),
    "beta": ("momentum, in [0, 1).", UNIT),
    "c": (", ".join(f"{rule.ranges['c']} for {rule.title}" for rule in RULES.values()) + ".", None),
    "gamma_max": ("cap of the step, > 0.", POSITIVE),
    "omega": ("backtracking factor, in (0, 1); Armijo only.", None),
    "sigma2": (
        "E[f(theta*; x) - f*(x)], >= 0; with a lower bound in place of f*, counted from it.",
        NON_NEGATIVE,
    ),
    "dist0_sq": ("||theta_0 - theta*||^2, >= 0.", NON_NEGATIVE),
    "gap0": ("F(theta_0) - F(theta*), >= 0.", NON_NEGATIVE),
    "schedules": ("eta_k, beta_k and gamma_max,k within Assumption 5.", None),
}
"""Arguments that many results share."""
_RAISES = """Raises:
    ValueError: a condition fails; names the result, the inequality and the numbers."""


@dataclass(frozen=True)
class Result:
    """One result."""

    id: str
    """Its name in the paper, such as ``"Theorem 2"``."""
    statement: str
    """The statement, in one line."""
    assumptions: tuple[str, ...]
    function: Callable[..., Any]

    @property
    def name(self) -> str:
        """Its name on the command line."""
        return self.function.__name__.removeprefix("check_").replace("_", "-")

    @property
    def scalar(self) -> bool:
        """True if the function takes numbers only, so that the command line can call it."""
        return "rule" in inspect.signature(self.function).parameters

    @property
    def grid(self) -> bool:
        """True if it makes a statement for each k."""
        signature = inspect.signature(self.function)
        return "k" in signature.parameters or hasattr(signature.return_annotation, "bound")

    @property
    def bound_arguments(self) -> tuple[str, ...]:
        """Arguments of its ``bound`` besides k."""
        bound = getattr(inspect.signature(self.function).return_annotation, "bound", None)
        parameters = inspect.signature(bound).parameters.values() if callable(bound) else ()
        return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)

    @property
    def location(self) -> str:
        """The label and the section in the paper, from the docstring."""
        text = inspect.getdoc(self.function) or ""
        return text.partition("Reference: ")[2].strip().removeprefix("Zhang, Shi and Gu, ")


RESULTS: list[Result] = []
"""The paper's, in its order; a result added here is listed, documented and tested."""
OWN: list[Result] = []
"""Our own results, on the default and its relatives; not the paper's."""


def result(
    id: str, statement: str = "", *assumptions: str, **own: str | Argument
) -> Callable[[Function], Function]:
    """Make a function a result; without a statement it is only a part of one.

    The function takes numbers of other libraries, and refuses those out of range; an error begins
    with ``id``. A default is never checked. The docstring gets the assumptions and, where the
    text of every argument is known from ``own`` or the table above, the sections Args and Raises.
    """

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        texts, ranges = {}, {}
        for name in signature.parameters:
            text, interval = ARGUMENTS.get(name, ("", None))
            given = own.get(name, text)
            texts[name], ranges[name] = (given, interval) if isinstance(given, str) else given

        @functools.wraps(function)
        def with_checks(*args: Any, **numbers: Any) -> Any:
            for name, value in numbers.items():
                if hasattr(value, "dtype") and getattr(value, "ndim", None) == 0:
                    numbers[name] = float(value)
            try:
                _check_arguments(id, signature, ranges, args, numbers)
                return function(*args, **numbers)
            except (ValueError, TypeError) as error:
                if str(error).startswith(id):
                    raise
                kind = TypeError if isinstance(error, TypeError) else ValueError
                raise kind(f"{id}: {error}") from error

        doc = inspect.cleandoc(function.__doc__ or "")
        end = re.search("^(>>> |Reference: )", doc, flags=re.MULTILINE)
        cut = end.start() if end else len(doc)
        assumed = [fill(f"Assumes: {'; '.join(assumptions)}.", 96)] if assumptions else []
        sections = [args_section(texts, texts), _RAISES] if all(texts.values()) else []
        with_checks.__doc__ = "\n\n".join([doc[:cut].rstrip(), *assumed, *sections, doc[cut:]])
        if statement:  # the paper's results have numbers, ours have letters
            registered = RESULTS if id[-1].isdigit() else OWN
            registered.append(Result(id, statement, assumptions, with_checks))
        return cast(Function, with_checks)

    return decorate


def _check_arguments(
    id: str, signature: inspect.Signature, ranges: Mapping[str, Interval | None],
    args: tuple[Any, ...], numbers: Mapping[str, Any],
) -> None:  # fmt: skip
    """Refuse a call with arguments that are missing, all of them named, or out of range."""
    parameters = list(signature.parameters.values())
    required = [each.name for each in parameters[len(args) :] if each.default is each.empty]
    if missing := [name for name in required if name not in numbers]:
        raise TypeError(f"{id} needs {', '.join(missing)}")
    given = signature.bind(*args, **numbers).arguments
    given = {n: v for n, v in given.items() if v is not signature.parameters[n].default}
    for name, value in given.items():
        if (interval := ranges[name]) is not None:
            conditions.real(id, interval, **{name: value})
    if "rule" in given:
        constants = {n: value for n, value in given.items() if n in ("c", "omega")}
        checked(id, given["rule"], **{"omega": None, **constants})


def c_from(least: str) -> str:
    """The text of c where a theorem asks for more than the rules themselves."""
    bounded = (rule for rule in RULES.values() if rule.ranges["c"].high < float("inf"))
    return least + "".join(f"; below {r.ranges['c'].high:g} for {r.title}" for r in bounded) + "."
