"""``heavystep methods``: the registry, and what each argument of a method means."""

import inspect
import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Column, Table

from heavystep.cli.common import argument_texts, method_names, one_of, show, told
from heavystep.documentation import plain_formula
from heavystep.methods import METHODS, SCHEDULER, Method, check_name

LIST = {"method": 16, "what it is": 27, "needs": 18, "guarantee": 15, "formula from": 14}
"""The columns of the list, with their widths. A guarantee is said to where it holds."""
AFTER_LIST = (
    "heavystep.create(NAME, params) makes an optimizer. heavystep methods NAME: formulas, what is",
    "proved, and the arguments with their defaults. The row after the gap is a scheduler.",
)
FIELDS = (
    "title", "summary", "needs", "guarantee", "evidence", "verified", "differs", "reference",
    "main",
)  # fmt: skip
"""What ``--json`` says of a method, beside its formulas and arguments."""


@told
def methods(
    name: Annotated[
        str | None,
        typer.Argument(help="One of them, for its arguments.", autocompletion=one_of(method_names)),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="All of it, to be read by a program.")
    ] = False,
) -> None:
    """List the methods; give a name for its formulas, its arguments and their defaults."""
    if name is not None:
        check_name(name, [SCHEDULER])
    if as_json:
        names = (*METHODS, SCHEDULER) if name is None else (name,)
        typer.echo(json.dumps([_described(each) for each in names], indent=2, allow_nan=False))
    elif name is None:
        show(_listed(), *AFTER_LIST)
    else:
        method = METHODS.get(name)
        show(*_explained(method) if method else [_summary(name)], _arguments(name))


def kind_of(name: str) -> type:
    """The class of that name, an optimizer or the scheduler."""
    if name == SCHEDULER:
        from heavystep.optim.diminishing import Diminishing

        return Diminishing
    from heavystep.optimizers import optimizer_class

    return optimizer_class(name)


def _explained(method: Method) -> Iterator[str]:
    """Formulas and facts, a line each."""
    yield method.summary if method.verified else f"Not verified. {method.summary}"
    yield from (f"    {plain_formula(formula)}" for formula in method.formulas)
    if method.explained:
        yield method.explained
    yield f"Its name in the paper: {method.title}. Momentum form: {method.form.name}."
    yield f"Published: {method.reference}. Formula from: {method.evidence}."
    if method.differs:
        yield f"Differs: {method.differs}."
    yield f"Guarantee, as published: {method.guarantee or 'none'}."
    yield f"Needs: {method.needs}. Main constant: {method.main or 'none'}."


def _listed() -> Table:
    """One row a method, in a hundred columns."""
    heading = (Column(title, max_width=width) for title, width in LIST.items())
    table = Table(*heading, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for each in METHODS.values():
        where = each.guarantee.partition(":")[0] or "none"
        table.add_row(each.name, each.summary, each.needs, where, each.evidence)
    table.add_section()
    table.add_row(SCHEDULER, _summary(SCHEDULER))
    return table


def _described(name: str) -> dict[str, Any]:
    """What there is to know of it, in plain types."""
    if name in METHODS:
        method = METHODS[name]
        about: dict[str, Any] = {field: getattr(method, field) for field in FIELDS}
        about |= {"momentum_form": method.form.name, "formulas": method.formulas}
    else:
        about = {"title": "SHB-PS_dec, SHB-ALS_dec", "summary": _summary(name)}
    described = {
        argument: {"meaning": text} | ({} if default is _EMPTY else {"default": default})
        for argument, default, text in _rows(name)
    }
    return {"name": name, **about, "arguments": described}


def _summary(name: str) -> str:
    """The first sentence of its docstring, without markup."""
    first = (inspect.getdoc(kind_of(name)) or "").partition("\n\n")[0]
    return first.replace(":class:", "").replace("`", "").replace("\n", " ")


def _arguments(name: str) -> Table:
    table = Table("argument", "default", "meaning")
    for argument, default, text in _rows(name):
        table.add_row(argument, "" if default is _EMPTY else repr(default), text)
    return table


def _rows(name: str) -> list[tuple[str, Any, str]]:
    """Name, default and meaning of each argument."""
    kind = kind_of(name)
    texts, given = argument_texts(kind), inspect.signature(kind).parameters
    return [(argument, parameter.default, texts[argument]) for argument, parameter in given.items()]


_EMPTY = inspect.Parameter.empty
