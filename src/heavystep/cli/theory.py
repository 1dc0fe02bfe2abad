"""``heavystep theory``: the registry, constants and bounds as tables, admissible ranges."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import typer
from rich.table import Column, Table

from heavystep.cli.common import argument_texts, option, show, with_options
from heavystep.schedules import Schedules, diminishing_conditions
from heavystep.theory.advice import advice
from heavystep.theory.diminishing import ConvexDiminishing, NonConvexDiminishing
from heavystep.theory.lemmas import check_schedules
from heavystep.theory.registry import RESULTS, Result
from heavystep.theory.theorems import SummableSequence

SECTION_5 = {"eta0": 0.5, "eta_power": 0.4, "beta0": 0.9, "beta_power": 1.1,
             "gamma_max_power": 0.3, "horizon": 1e4}  # fmt: skip
"""The defaults of the schedules. gamma_max0 depends on the problem and must be given."""
EMPTY = inspect.Parameter.empty
LAWS = [
    option(name, float, SECTION_5.get(name, EMPTY), "schedules: a (1 + k / horizon)^-power")
    for name in inspect.signature(Schedules.power_laws).parameters
]
STEPS = "1,10,100,1000,10000,100000"
theory = typer.Typer(
    help="List the paper's results, compute constants and bounds.\n\n"
    "Without a command it lists every result; give a name for its constants and bound.",
    invoke_without_command=True,
    rich_markup_mode=None,
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
        text = values.pop("k", "1")
        try:
            k = np.array([float(part) for part in text.split(",")])
        except ValueError:
            raise ValueError(f"--k must be numbers separated by commas, got {text!r}") from None
        known = {name: values.pop(name) for name in result.bound_arguments}
        promise = _called(result.function, {**values, "k": k})
        numbers = promise._asdict() if hasattr(promise, "_asdict") else vars(promise)
        if isinstance(promise, ConvexDiminishing | NonConvexDiminishing):
            numbers = {**numbers, "K": promise.K}
        constants, columns = Table("constant", "value"), {}
        for name, value in numbers.items():
            if isinstance(value, np.ndarray):
                columns[name] = value
            elif isinstance(value, int | float) and values.get(name) in (None, value):
                constants.add_row(name, _text(value))
        columns |= _bounds(promise, k, known) if result.grid else {}
        grid = Table("k", *columns)
        for step, *row in zip(k, *columns.values(), strict=True) if columns else ():
            grid.add_row(f"{step:.15g}", *map(_text, row))
        tables = [table for table in (constants, grid) if table.row_count]
        show(f"{result.id}: {result.statement}", *tables)

    taken = [each for each in _options(result.function) if each.name != "k"]
    proof = "for the bound that the proof carries"
    taken += [option(name, float | None, None, proof) for name in result.bound_arguments]
    if result.grid:
        taken.append(option("k", str, STEPS, "numbers of steps, separated by commas"))
    return with_options(command, taken, f"{result.id}: {result.statement}")


def _options(function: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    """The options of a command that calls ``function``."""
    texts = argument_texts(function)
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "schedules":
            yield from LAWS
        else:
            kind: Any = {"rule": str, "K": int}.get(name, float)
            kind = kind if parameter.default is EMPTY else kind | None
            yield option(name, kind, parameter.default, texts[name])


def _called(function: Callable[..., Any], values: dict[str, Any]) -> Any:
    """The function of the values of its options."""
    names = inspect.signature(function).parameters
    if "schedules" in names:
        laws = Schedules.power_laws(**{law.name: values[law.name] for law in LAWS})
        values = {**values, "schedules": laws}
    return function(**{name: values[name] for name in names if name in values})


def _bounds(promise: Any, k: Any, known: dict[str, Any]) -> dict[str, Any]:
    """The bounds at each k; ``known`` is what a bound of the proof needs."""
    if isinstance(promise, ConvexDiminishing | NonConvexDiminishing):
        columns = {"S_k": promise.S(k), "rate 1 / S_k": promise.rate(k)}
        if None not in known.values():
            columns["bound of the proof, in expectation"] = promise.bound(k, **known)
        return columns
    if isinstance(promise, SummableSequence):
        but = "bound but with probability"
        return {f"{but} {p:g}": promise.bound(k, p) for p in (0.5, 0.1, 0.01)}
    has_bound = hasattr(promise, "bound") and getattr(promise, "B", 0.0) is not None
    return {"bound": promise.bound(k)} if has_bound else {}


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
    for condition in diminishing_conditions(*laws, name="gamma_max"):
        table.add_row(condition.item, "yes" if condition.holds else "NO", condition.text)
    show(table)
    if refusal is not None:
        raise refusal


_commands = {result.name: _command(result) for result in RESULTS if result.scalar}
_commands["schedules"] = with_options(_schedules, LAWS, "Whether power laws meet Assumption 5.")
_text_of_advice = "Which c and gamma_max each theorem admits."
_commands["advice"] = with_options(_advice, list(_options(advice)), _text_of_advice)
for _name, _run in _commands.items():
    theory.command(_name, short_help=_run.__doc__)(_run)
