"""The ``Args`` section of a docstring, made from one text for each argument."""

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
