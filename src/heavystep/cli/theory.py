"""``heavystep theory``: the registry, constants and bounds as tables, admissible ranges."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import typer
from rich.table import Column, Table

from heavystep.cli import common
from heavystep.cli.common import option, show, with_options
from heavystep.schedules import Schedules, diminishing_conditions
from heavystep.theory.advice import advice
from heavystep.theory.lemmas import check_schedules
from heavystep.theory.registry import RESULTS, Result

SECTION_5 = {"eta0": 0.5, "eta_power": 0.4, "beta0": 0.9, "beta_power": 1.1,
             "gamma_max_power": 0.3, "horizon": 1e4}  # fmt: skip
"""The defaults of the schedules. gamma_max0 depends on the problem and must be given."""
EMPTY = inspect.Parameter.empty
LAWS = [
    option(name, float, SECTION_5.get(name, EMPTY), "schedules: a (1 + k / horizon)^-power")
    for name in inspect.signature(Schedules.power_laws).parameters
]
STEPS = "1,10,100,1000,10000,100000"
theory = common.group_of_commands(
    "List the paper's results, compute constants and bounds.\n\n"
    "Without a command it lists every result; give a name for its constants and bound.",
    invoke_without_command=True,
    no_args_is_help=False,
)


@theory.callback()
def registry(context: typer.Context) -> None:
    """List every result; give a name for its constants and bound."""
    if context.invoked_subcommand is not None:
        return
    called = {r.id: r.name if r.scalar else f"theory.{r.function.__name__}()" for r in RESULTS}
    names = Column("command or function", min_width=max(map(len, called.values())))
    table = Table("result", names, "statement", "assumptions", "paper")
    for result in RESULTS:
        assumptions = "; ".join(result.assumptions)
        table.add_row(result.id, called[result.id], result.statement, assumptions, result.location)
    show(table, "heavystep theory NAME --help: what a result needs; 'advice': what it admits.")


def _command(result: Result) -> Callable[..., None]:
    """A command with the arguments of the result's function, and ``--k`` where it has a bound."""

    def command(**values: Any) -> None:
        k = _steps(values.pop("k")) if result.grid else None
        given = {name: values.pop(name) for name in result.bound_arguments}
        promise = _called(result.function, {**values, "k": k})
        bounds = [] if k is None else _bounds(promise, k, given)
        show(f"{result.id}: {result.statement}", _constants(promise, k, values), *bounds)

    proof = "for the bound that the proof carries"
    taken = [p for p in _options(result.function) if p.name != "k"]
    taken += [option(name, float | None, None, proof) for name in result.bound_arguments]
    if result.grid:
        taken.append(option("k", str, STEPS, "numbers of steps, separated by commas"))
    return with_options(command, taken, f"{result.id}: {result.statement}")


def _options(function: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    """The options of a command that calls ``function``."""
    texts = common.argument_texts(function)
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "schedules":
            yield from LAWS
        else:
            kind: Any = str if name == "rule" else int if name == "K" else float
            kind = kind if parameter.default is EMPTY else kind | None
            yield option(name, kind, parameter.default, texts[name])


def _called(function: Callable[..., Any], values: dict[str, Any]) -> Any:
    """The function of the values of its options."""
    names = inspect.signature(function).parameters
    found = {name: values[name] for name in names if name in values}
    if "schedules" in names:
        found["schedules"] = Schedules.power_laws(**{law.name: values[law.name] for law in LAWS})
    return function(**found)


def _steps(text: str) -> np.ndarray[Any, Any]:
    try:
        return np.array([float(part) for part in text.split(",")])
    except ValueError:
        raise ValueError(f"--k must be numbers separated by commas, got {text!r}") from None


def _constants(promise: Any, k: Any, values: dict[str, Any]) -> Table:
    """The fields of a result that are numbers and were not given, and K where it is computed."""
    table = Table("constant", "value")
    for name in getattr(promise, "_fields", None) or dict.fromkeys([*vars(promise), "K"]):
        value = getattr(promise, name, None)
        if isinstance(value, np.ndarray):
            for step, entry in zip(k, value, strict=True):
                table.add_row(f"{name} at k = {step:.15g}", _text(entry))
        elif isinstance(value, int | float) and (values.get(name) is None or name == "gamma_max"):
            table.add_row(name, _text(value))
    return table


def _bounds(promise: Any, k: Any, given: dict[str, Any]) -> Iterator[Table]:
    """The bounds known at each k, as tables; ``given`` is what a bound of the proof needs."""
    if hasattr(promise, "S"):
        yield _columns(k, {"S_k": promise.S(k), "rate 1 / S_k": promise.rate(k)})
        if all(value is not None for value in given.values()):
            yield _columns(k, {"bound of the proof, in expectation": promise.bound(k, **given)})
    elif hasattr(promise, "expected_sum"):
        but = "bound but with probability"
        yield _columns(k, {f"{but} {p:g}": promise.bound(k, p) for p in (0.5, 0.1, 0.01)})
    elif hasattr(promise, "bound") and getattr(promise, "B", 0.0) is not None:
        yield _columns(k, {"bound": promise.bound(k)})


def _columns(k: Any, columns: dict[str, Any]) -> Table:
    table = Table("k", *columns)
    for step, *values in zip(k, *columns.values(), strict=True):
        table.add_row(f"{step:.15g}", *map(_text, values))
    return table


def _text(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _advice(**values: Any) -> None:
    table = Table("theorem", "c", "gamma_max", "best c")
    for line in _called(advice, values):
        best = "-" if line.best_c is None else f"{line.best_c:.6g}"
        at = "" if line.at_c is None else f" at c = {line.at_c:g}"
        table.add_row(line.theorem, str(line.c), f"{line.gamma_max}{at}", best)
    show(table)


def _schedules(**values: Any) -> None:
    laws = Schedules.power_laws(**values)
    refusal = None
    try:
        check_schedules("Assumption 5", laws)
    except ValueError as error:
        refusal = error
        if "item" not in str(error):  # not power laws at all: there is nothing to decide
            raise
    table = Table("item", "holds", "condition")
    for condition in diminishing_conditions(laws.eta, laws.beta, laws.gamma_max):
        text = condition.text.replace("max_step_power", "gamma_max_power")
        table.add_row(condition.item, "yes" if condition.holds else "NO", text)
    show(table)
    if refusal is not None:
        raise refusal


for _result in RESULTS:
    if _result.scalar:
        _run = _command(_result)
        theory.command(_result.name, short_help=_run.__doc__)(_run)
_text_of = "Whether power laws meet Assumption 5."
theory.command("schedules")(with_options(_schedules, LAWS, _text_of))
_text_of = "Which c and gamma_max each theorem admits."
theory.command("advice")(with_options(_advice, list(_options(advice)), _text_of))
