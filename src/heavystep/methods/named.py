"""Methods with options, as they are written in a line: ``SHBPolyak:scaling=practical``."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from heavystep.methods.effect import SCALING
from heavystep.methods.method import Method

Options = tuple[tuple[str, Any], ...]
"""Options by name, as they were given."""


def read(text: str) -> tuple[str, Options]:
    """A name and the options after it: numbers, true, false, null or words.

    Args:
        text: ``NAME:option=value:option=value``.

    Raises:
        ValueError: an option has no value, or two.

    >>> read("SHBPolyak: c=.5 : scaling=practical")
    ('SHBPolyak', (('c', 0.5), ('scaling', 'practical')))
    """
    name, *given = (part.strip() for part in text.split(":"))
    options = tuple(_option(text, each) for each in given)
    if len(dict(options)) < len(options):
        raise ValueError(f"{text!r}: an option is given twice")
    return name, options


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
        options: values by name; names that it does not have are passed over.

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


def differing(method: Method, options: Mapping[str, Any]) -> Options:
    """The options that one has to give to a method for these to be all of its options.

    Args:
        method: which one.
        options: all of them, as :meth:`~heavystep.methods.Method.complete` has them.

    >>> from heavystep.methods import SHB_POLYAK
    >>> differing(SHB_POLYAK, SHB_POLYAK.complete({"c": 0.5, "scaling": "practical"}))
    (('c', 0.5), ('scaling', 'practical'))
    """
    rule = {name: value for name, value in options.items() if name == SCALING}
    usual = {each.name: each.default for each in tuned(method, rule).options}
    usual |= {each.name: each.default for each in method.options if each.name == SCALING}
    known = ((name, value) for name, value in options.items() if name in usual)
    return tuple((name, value) for name, value in known if value != usual[name])


def _option(text: str, part: str) -> tuple[str, Any]:
    option, _, value = (each.strip() for each in part.partition("="))
    if not option:
        raise ValueError(f"{text!r}: a colon must be followed by an option, name=value")
    for kind in (json.loads, float):
        with suppress(ValueError):
            return option, kind(value)
    if value.isidentifier():
        return option, value
    raise ValueError(f"{text!r}: {option!r} must be followed by = and a number or a word")
