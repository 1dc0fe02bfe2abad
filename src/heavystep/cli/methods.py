"""``heavystep methods``: the registry, and what each argument of a method means."""

import inspect
import re
from collections.abc import Iterator
from typing import Annotated

import typer
from rich import box
from rich.table import Column, Table

from heavystep.cli.common import argument_texts, list_of, show
from heavystep.methods import METHODS, SCHEDULER, Method, check_name

LIST = {"method": 16, "what it is": 27, "needs": 18, "guarantee": 15, "formula from": 14}
"""The columns of the list, with their widths. A guarantee is said to where it holds."""
AFTER_LIST = (
    "heavystep.create(NAME, params) makes an optimizer. heavystep methods NAME: formulas, what is",
    "proved, and the arguments with their defaults. The row after the gap is a scheduler.",
)


def methods(
    name: Annotated[
        str | None,
        typer.Argument(help="One of them, for its arguments.", autocompletion=list_of(METHODS)),
    ] = None,
) -> None:
    """List the methods; give a name for its formulas and arguments."""
    if name is None:
        show(_listed(), *AFTER_LIST)
    else:
        check_name(name, [SCHEDULER])
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


def _summary(name: str) -> str:
    """The first sentence of its docstring, without markup."""
    first = (inspect.getdoc(kind_of(name)) or "").partition("\n\n")[0]
    return first.replace(":class:", "").replace("`", "").replace("\n", " ")


def _arguments(name: str) -> Table:
    kind, table = kind_of(name), Table("argument", "default", "meaning")
    texts = argument_texts(kind)
    for argument, parameter in inspect.signature(kind).parameters.items():
        required = parameter.default is inspect.Parameter.empty
        table.add_row(argument, "" if required else repr(parameter.default), texts[argument])
    return table


_MARKS = {
    r"\langle ": "<", r"\rangle": ">", r"\varepsilon": "eps", r"_{\max}": "_max", r"\bar ": "mean ",
    r"\varphi": "phi", r"\ell": "l", r"\|": "||", r"\{": "{", r"\}": "}", r"\,": " ", r"\ ": " ",
    r"\qquad": " ", r"\quad": " ", r"\le ": "<= ", r"\ge ": ">= ", r"\in ": "in ",
    "_{k+1}": "_(k+1)", "_{k-1}": "_(k-1)",
}  # fmt: skip


def plain_formula(latex: str) -> str:
    r"""A formula as a terminal shows it.

    >>> plain_formula(r"\gamma_k = \min\{c\,\|g_k\|^2,\ \mathrm{cap}_k\}, \quad t \text{ largest}")
    'gamma_k = min{c ||g_k||^2, cap_k}, t largest'
    >>> plain_formula(r"\gamma_{\max} + \langle g_k, \theta_k\rangle - \bar f")
    'gamma_max + <g_k, theta_k> - mean f'
    """
    text = re.sub(r"\\(?:mathrm|text)\{([^{}]*)\}", r"\1", latex)
    for mark, plain in _MARKS.items():
        text = text.replace(mark, plain)
    text = re.sub(r"\\([a-z]+)", r"\1", text)
    return re.sub(r"\s+", " ", text).replace(" ,", ",").strip()
