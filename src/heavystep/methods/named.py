"""Methods with options, as they are written in a line: ``SHBPolyak:scaling=practical``."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from heavystep.methods.method import Method

Options = tuple[tuple[str, Any], ...]


def read(text: str) -> tuple[str, Options]:
    """A name and the options after it: numbers, true, false, null or words.

    Args:
        text: ``NAME:option=value:option=value``.

    Raises:
        ValueError: an option has no value.

    >>> read("SHBPolyak:c=0.5:scaling=practical")
    ('SHBPolyak', (('c', 0.5), ('scaling', 'practical')))
    """
    name, *given = text.split(":")
    return name, tuple(_option(text, each) for each in given)


def written(options: Options) -> str:
    """Options as :func:`read` reads them.

    >>> written((("c", 0.5), ("scaling", "practical")))
    ':c=0.5:scaling=practical'
    """
    return "".join(
        f":{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in options
    )


def tuned(method: Method, options: Mapping[str, Any]) -> Method:
    """The method with the rule that the options ask for, and with them as its defaults.

    Args:
        method: which one.
        options: those that it does not have are left to others.

    >>> from heavystep.methods import SHB_POLYAK
    >>> paper = tuned(SHB_POLYAK, {"scaling": "practical"})
    >>> paper.rule.name, {option.name: option.default for option in paper.options}["max_step"]
    ('polyak', 1.0)
    """
    known = {option.name: option.default for option in method.options}
    given = {name: value for name, value in options.items() if name in known}
    settled = method.rule.settle({**method.fixed, **known, **given})
    chosen = method.chosen(settled)
    return replace(chosen, defaults={each.name: settled[each.name] for each in chosen.options})


def _option(text: str, part: str) -> tuple[str, Any]:
    option, _, value = part.partition("=")
    try:
        return option, json.loads(value)
    except ValueError:
        if value.isidentifier():
            return option, value
        raise ValueError(
            f"{text!r}: {option!r} must be followed by = and a number or a word"
        ) from None
