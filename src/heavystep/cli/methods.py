"""``heavystep methods``: the registry, and what each argument of a method means."""

import inspect
from typing import Annotated

import typer
from rich.table import Table

from heavystep import validation
from heavystep.cli.errors import told
from heavystep.cli.options import argument_texts
from heavystep.cli.output import show
from heavystep.documentation import plain_formula

SCHEDULERS = {"Diminishing": "SHB-PS_dec, SHB-ALS_dec"}
"""What drives the options of a method, with the name of the result in the paper."""


@told
def methods(
    name: Annotated[str | None, typer.Argument(help="one of them, for its arguments")] = None,
) -> None:
    """List the methods; give a name for its arguments, their defaults and what they mean."""
    from heavystep import optim
    from heavystep.methods import METHODS

    if name is None:
        table = Table("method", "paper", "what it is", "momentum form", "needs")
        for method in METHODS.values():
            table.add_row(method.name, method.title, method.summary, method.form.name, method.needs)
        for scheduler, title in SCHEDULERS.items():
            table.add_row(scheduler, title, _summary(getattr(optim, scheduler)), "", "")
        show(
            table,
            "heavystep.create(NAME, params) makes an optimizer. heavystep methods NAME: arguments, "
            "defaults and what they mean.",
        )
        return
    validation.choice("method", name, (*METHODS, *SCHEDULERS))
    if name in SCHEDULERS:
        kind: type = getattr(optim, name)
        show(_summary(kind))
    else:
        method, kind = METHODS[name], optim.optimizer_class(name)
        formulas = map(plain_formula, method.formulas)
        show(method.summary, *(f"    {formula}" for formula in formulas))
        if method.metric:
            show(method.metric)
        show(
            f"Published: {method.reference}. Formula from: {method.evidence}.",
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
