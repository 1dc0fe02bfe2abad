"""``heavystep theory``: the registry, constants and bounds as tables, admissible ranges."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from heavystep.cli import options
from heavystep.schedules import Schedules, diminishing_conditions
from heavystep.theory.advice import advice
from heavystep.theory.registry import RESULTS, Result
from heavystep.theory.schedule_assumption import check_schedules

theory = typer.Typer(
    invoke_without_command=True,
    rich_markup_mode=None,
    help="The paper's results: list them, compute their constants, see what they admit.",
)


@theory.callback()
def registry(context: typer.Context) -> None:
    """List every result; give a name for its constants and bound."""
    if context.invoked_subcommand is not None:
        return
    table = Table("result", "command or function", "statement", "assumptions", "paper")
    for result in RESULTS:
        called = result.name if result.scalar else f"theory.{result.function.__name__}()"
        assumptions = "; ".join(result.assumptions)
        table.add_row(result.id, called, result.statement, assumptions, result.location)
    _print(table)
    _print("heavystep theory NAME --help shows what a result needs; 'advice' what it admits.")


def _print(content: Any) -> None:
    # A pipe has no width: tables are then as wide as they need to be.
    console = Console()
    Console(width=console.width if console.is_terminal else 160).print(content, markup=False)


def _told(command: Callable[..., None]) -> Callable[..., None]:
    """One line on stderr and status 2 in place of a traceback, for a violated condition."""

    def told(**values: Any) -> None:
        try:
            command(**values)
        except (ValueError, TypeError) as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(2) from None

    return told


def _command(result: Result) -> Callable[..., None]:
    """A command with the arguments of the result's function, and ``--k`` where it has a bound."""

    @_told
    def command(**values: Any) -> None:
        k = _steps(values.pop("k")) if "k" in values else None
        if k is not None and "k" in inspect.signature(result.function).parameters:
            values["k"] = k
        promise = result.function(**options.arguments(result.function, values))
        _print(f"{result.id}: {result.statement}")
        _print(_constants(promise, k))
        if k is not None and (rows := _bounds(promise, k)) is not None:
            _print(rows)

    taken = [p for p in options.parameters(result.function) if p.name != "k"]
    return options.with_options(
        command, [*taken, options.step_counts()], f"{result.id}: {result.statement}"
    )


def _steps(text: str) -> np.ndarray[Any, Any]:
    try:
        return np.array([float(part) for part in text.split(",")])
    except ValueError:
        raise ValueError(f"--k must be numbers separated by commas, got {text!r}") from None


def _constants(promise: Any, k: Any) -> Table:
    table = Table("constant", "value")
    for name, value in _numbers(promise):
        if np.ndim(value):
            for step, entry in zip(k, value, strict=True):
                table.add_row(f"{name} at k = {step:g}", _text(entry))
        else:
            table.add_row(name, _text(value))
    return table


def _numbers(promise: Any) -> Iterator[tuple[str, Any]]:
    """The fields of a result that are numbers, and K where it is computed."""
    if not is_dataclass(promise):
        yield from promise._asdict().items()
        return
    names = [field.name for field in fields(promise)]
    for name in names:
        value = getattr(promise, name)
        if not isinstance(value, (str, Schedules)):
            yield name, value
    if "K" not in names and hasattr(promise, "K"):
        yield "K", promise.K


def _bounds(promise: Any, k: Any) -> Table | None:
    if hasattr(promise, "S"):
        table = Table("k", "S_k", "rate 1 / S_k")
        for step, total in zip(k, promise.S(k), strict=True):
            table.add_row(f"{step:g}", _text(total), _text(1.0 / total))
        return table
    if hasattr(promise, "expected_sum"):
        chances = (0.5, 0.1, 0.01)
        table = Table("k", *(f"bound but with probability {p:g}" for p in chances))
        for step in k:
            table.add_row(f"{step:g}", *(_text(promise.bound(step, p)) for p in chances))
        return table
    if not hasattr(promise, "bound") or getattr(promise, "B", 0.0) is None:
        return None
    table = Table("k", "bound")
    for step, bound in zip(k, promise.bound(k), strict=True):
        table.add_row(f"{step:g}", _text(bound))
    return table


def _text(value: Any) -> str:
    if isinstance(value, (float, np.floating)):
        return f"{float(value):.10g}"
    return "not given" if value is None else str(value)


@_told
def _advice(**values: Any) -> None:
    table = Table("theorem", "c", "gamma_max", "best c")
    for line in advice(**options.arguments(advice, values)):
        best = "-" if line.best_c is None else f"{line.best_c:.6g}"
        table.add_row(line.theorem, str(line.c), str(line.gamma_max), best)
    _print(table)


@_told
def _schedules(**values: Any) -> None:
    laws = Schedules.power_laws(**values)
    table = Table("item", "holds", "condition")
    for condition in diminishing_conditions(laws.eta, laws.beta, laws.gamma_max):
        table.add_row(condition.item, "yes" if condition.holds else "NO", condition.text)
    _print(table)
    check_schedules("Assumption 5", laws)


for _result in RESULTS:
    if _result.scalar:
        theory.command(_result.name)(_command(_result))
theory.command("schedules")(
    options.with_options(
        _schedules,
        list(options.schedule_options()),
        "Assumption 5: whether power laws are schedules of the diminishing theorems.",
    )
)
theory.command("advice")(
    options.with_options(
        _advice,
        list(options.parameters(advice)),
        "Which c and gamma_max each theorem admits.",
    )
)
