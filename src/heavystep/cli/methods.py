"""``heavystep methods``: the registry, and what each argument of a method means."""

import inspect
import json
import re
from typing import Annotated, Any, NamedTuple

import typer
from rich import box
from rich.table import Column, Table

from heavystep.cli.common import argument_texts, method_names, one_of, show, told
from heavystep.documentation import plain_formula
from heavystep.methods import ELSEWHERE, METHODS, check_name

LIST = {"method": 16, "what it is": 27, "needs": 18, "guarantee": 15, "formula from": 14}
"""The columns of the list, with their widths. A guarantee is said to where it holds."""
AFTER_LIST = (
    "heavystep.create(NAME, params) makes an optimizer. heavystep methods NAME: formulas, what is",
    "proved, and the arguments with their defaults. The rows after the gap are not optimizers.",
)
FIELDS = (
    "title", "summary", "needs", "guarantee", "evidence", "verified", "differs", "reference",
    "main",
)  # fmt: skip
"""What ``--json`` says of a method, beside its formulas and arguments."""


class Beside(NamedTuple):
    """What is listed beside the registry: it is no optimizer of its own."""

    title: str
    summary: str
    kind: type
    """The class whose arguments are shown."""
    note: str = ""
    source: str = ""
    """Where the formula is from."""


def beside() -> dict[str, Beside]:
    """By name: what drives the options of a method, and methods on another problem."""
    from heavystep.optim.diminishing import Diminishing
    from heavystep.problems.variance_reduced import EVIDENCE, PUBLISHED, REFERENCE, VarianceReduced

    rows = {"Diminishing": Beside("SHB-PS_dec, SHB-ALS_dec", _summary(Diminishing), Diminishing)}
    for name, method in PUBLISHED.items():
        summary = f"{method} with variance-reduced losses, in simulation only."
        note = f"{ELSEWHERE[name]}\n{_summary(VarianceReduced)}\n{REFERENCE}"
        rows[name] = Beside(name, summary, VarianceReduced, note, EVIDENCE)
    return rows


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
    others = beside()
    if name is not None:
        check_name(name, others)
    if as_json:
        names = (*METHODS, *others) if name is None else (name,)
        found = [_described(each, others) for each in names]
        typer.echo(json.dumps(found, indent=2, allow_nan=False))
    elif name is None:
        show(_listed(others), *AFTER_LIST)
    elif name in others:
        row = others[name]
        first = f"{row.source.capitalize()}. {row.summary}" if row.source else row.summary
        show(*filter(None, (first, row.note)), _arguments(row.kind))
    else:
        method = METHODS[name]
        show(
            method.summary if method.verified else f"Not verified. {method.summary}",
            *(f"    {plain_formula(formula)}" for formula in method.formulas),
            *filter(None, [method.explained]),
            f"Its name in the paper: {method.title}. Momentum form: {method.form.name}.",
            f"Published: {method.reference}. Formula from: {method.evidence}.",
            *([f"Differs: {method.differs}."] if method.differs else []),
            f"Guarantee, as published: {method.guarantee or 'none'}.",
            f"Needs: {method.needs}. Main constant: {method.main or 'none'}.",
            _arguments(_class(name)),
        )


def _listed(others: dict[str, Beside]) -> Table:
    """One row a method, in a hundred columns."""
    heading = (Column(title, max_width=width) for title, width in LIST.items())
    table = Table(*heading, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for each in METHODS.values():
        needs = re.sub(r" \([^)]*\)", "", each.needs)
        where = each.guarantee.partition(":")[0] or "none"
        table.add_row(each.name, each.summary, needs, where, each.source)
    table.add_section()
    for other, row in others.items():
        table.add_row(other, row.summary, "", "", row.source)
    return table


def _class(name: str) -> type:
    from heavystep.optimizers import optimizer_class

    return optimizer_class(name)


def _described(name: str, others: dict[str, Beside]) -> dict[str, Any]:
    """What there is to know of it, in plain types."""
    if name in others:
        title, summary, kind, note, source = others[name]
        about: dict[str, Any] = {"title": title, "summary": summary, "note": note}
        about |= {"evidence": source} if source else {}
    else:
        method, kind = METHODS[name], _class(name)
        about = {field: getattr(method, field) for field in FIELDS}
        about |= {"momentum_form": method.form.name, "formulas": method.formulas}
    described = {
        argument: {"meaning": text} | ({} if default is _EMPTY else {"default": default})
        for argument, default, text in _rows(kind)
    }
    return {"name": name, **about, "arguments": described}


def _summary(kind: type) -> str:
    """The first sentence of its docstring, without markup."""
    first = (inspect.getdoc(kind) or "").partition("\n\n")[0]
    return first.replace(":class:", "").replace("`", "").replace("\n", " ")


def _arguments(kind: type) -> Table:
    table = Table("argument", "default", "meaning")
    for name, default, text in _rows(kind):
        table.add_row(name, "" if default is _EMPTY else repr(default), text)
    return table


def _rows(kind: type) -> list[tuple[str, Any, str]]:
    """Name, default and meaning of each argument."""
    texts, given = argument_texts(kind), inspect.signature(kind).parameters
    return [(name, parameter.default, texts[name]) for name, parameter in given.items()]


_EMPTY = inspect.Parameter.empty
