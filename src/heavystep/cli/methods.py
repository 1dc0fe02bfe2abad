"""``heavystep methods``: the registry, and what each argument of a method means."""

import inspect
from typing import Annotated, NamedTuple

import typer
from rich.table import Table

from heavystep.cli.errors import told
from heavystep.cli.options import argument_texts
from heavystep.cli.output import show
from heavystep.documentation import plain_formula


class Beside(NamedTuple):
    """What is listed beside the registry: it is no optimizer of its own."""

    title: str
    """The name in its paper."""
    summary: str
    kind: type
    """The class whose arguments are shown."""
    note: str = ""
    """What else there is to know."""


def beside() -> dict[str, Beside]:
    """By name: what drives the options of a method, and methods on another problem."""
    from heavystep import optim
    from heavystep.problems.variance_reduced import EVIDENCE, PUBLISHED, REFERENCE, VarianceReduced

    kind = optim.Diminishing
    rows = {"Diminishing": Beside("SHB-PS_dec, SHB-ALS_dec", _summary(kind), kind)}
    for name, method in PUBLISHED.items():
        call = f'in simulation only: simulate(VarianceReduced(problem), "{method}", ...)'
        note = f"{_summary(VarianceReduced)}\n{REFERENCE} ({EVIDENCE})"
        rows[name] = Beside(name, call, VarianceReduced, note)
    return rows


@told
def methods(
    name: Annotated[str | None, typer.Argument(help="one of them, for its arguments")] = None,
) -> None:
    """List the methods; give a name for its arguments, their defaults and what they mean."""
    from heavystep import optim
    from heavystep.methods import METHODS, check_name

    if name is None:
        table = Table("method", "paper", "what it is", "momentum form", "needs")
        for method in METHODS.values():
            table.add_row(method.name, method.title, method.summary, method.form.name, method.needs)
        for other, row in beside().items():
            table.add_row(other, row.title, row.summary, "", "")
        show(
            table,
            "heavystep.create(NAME, params) makes an optimizer. heavystep methods NAME: arguments, "
            "defaults and what they mean.",
        )
        return
    others = beside()
    check_name(name, others)
    if name in others:
        kind: type = others[name].kind
        show(*filter(None, (others[name].summary, others[name].note)))
    else:
        method, kind = METHODS[name], optim.optimizer_class(name)
        formulas = map(plain_formula, method.formulas)
        show(method.summary, *(f"    {formula}" for formula in formulas))
        if method.metric:
            show(method.metric)
        show(
            f"Published: {method.reference}. Formula from: {method.evidence}.",
            *([f"Differs: {method.differs}."] if method.differs else []),
            f"Guarantee, as published: {method.guarantee or 'none'}.",
            f"Needs: {method.needs}. Main constant: {method.main or 'none'}.",
        )
    show(_arguments(kind))


def _summary(kind: type) -> str:
    """The first sentence of its docstring, without markup."""
    first = (inspect.getdoc(kind) or "").partition("\n\n")[0]
    return first.replace(":class:", "").replace("`", "").replace("\n", " ")


def _arguments(kind: type) -> Table:
    table, texts = Table("argument", "default", "meaning"), argument_texts(kind)
    for name, parameter in inspect.signature(kind).parameters.items():
        required = parameter.default is inspect.Parameter.empty
        table.add_row(name, "" if required else repr(parameter.default), texts[name])
    return table
