"""``heavystep methods``: the optimizers, and what each argument means."""

import inspect
from typing import Annotated, Any

import typer
from rich.table import Table

from heavystep import validation
from heavystep.cli.errors import told
from heavystep.cli.options import argument_texts
from heavystep.cli.output import show

NAMES = ("SHBPolyak", "SHBArmijo", "SPS", "SLS", "SHB", "Diminishing")
PAPER = {
    "SHBPolyak": "SHB-PS",
    "SHBArmijo": "SHB-ALS",
    "SPS": "SPS",
    "SLS": "SLS",
    "SHB": "SHB",
    "Diminishing": "SHB-PS_dec, SHB-ALS_dec",
}


@told
def methods(
    name: Annotated[str | None, typer.Argument(help="one of them, for its arguments")] = None,
) -> None:
    """List the methods; give a name for its arguments, their defaults and what they mean."""
    from heavystep import optim

    known: dict[str, Any] = {each: getattr(optim, each) for each in NAMES}
    if name is not None:
        validation.choice("method", name, known)
        show(_summary(known[name]), _arguments(known[name]))
        return
    table = Table("heavystep.", "paper", "what it is")
    for each, kind in known.items():
        table.add_row(each, PAPER[each], _summary(kind))
    show(table, "heavystep methods NAME: arguments, defaults and what they mean.")


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
