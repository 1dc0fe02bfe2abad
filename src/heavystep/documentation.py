"""Texts made from what is declared: ``Args`` sections, and formulas for a terminal."""

import re
from collections.abc import Iterable, Mapping
from textwrap import fill
from typing import Any

_LAYOUT: dict[str, Any] = {
    "width": 96,
    "initial_indent": " " * 4,
    "subsequent_indent": " " * 8,
    "break_on_hyphens": False,
}


def args_section(names: Iterable[str], texts: Mapping[str, str]) -> str:
    """The section that lists ``names`` with their ``texts``.

    >>> args_section(["c"], {"c": "> 0."}).splitlines()
    ['Args:', '    c: > 0.']
    """
    return "Args:\n" + "\n".join(fill(f"{name}: {texts[name]}", **_LAYOUT) for name in names)


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


_MARKS = {
    r"\langle ": "<", r"\rangle": ">", r"\varepsilon": "eps", r"_{\max}": "_max", r"\bar ": "mean ",
    r"\varphi": "phi",
    r"\ell": "l", r"\|": "||", r"\{": "{", r"\}": "}", r"\,": " ", r"\ ": " ", r"\qquad": " ",
    r"\quad": " ", r"\le ": "<= ", r"\ge ": ">= ", r"\in ": "in ", "_{k+1}": "_(k+1)",
    "_{k-1}": "_(k-1)",
}  # fmt: skip
