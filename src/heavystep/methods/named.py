"""Methods with options, as they are written in a line: ``SHBPolyak:scaling=practical``."""

from contextlib import suppress
from typing import Any

Options = tuple[tuple[str, Any], ...]
"""Options by name, as they were given."""
_CONSTANTS = {
    "None": None, "null": None, "True": True, "true": True, "False": False, "false": False,
}  # fmt: skip


def read(text: str) -> tuple[str, Options]:
    """A name and the options after it: numbers, None, True, False or words.

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

    >>> written((("c", 0.5), ("scaling", "practical"), ("steps_per_epoch", None)))
    ':c=0.5:scaling=practical:steps_per_epoch=None'
    """
    return "".join(f":{name}={value}" for name, value in options)


def _option(text: str, part: str) -> tuple[str, Any]:
    option, _, value = (each.strip() for each in part.partition("="))
    if not option:
        raise ValueError(f"{text!r}: a colon must be followed by an option, name=value")
    if value in _CONSTANTS:
        return option, _CONSTANTS[value]
    for kind in (int, float):
        with suppress(ValueError):
            return option, kind(value)
    if value.isidentifier():
        return option, value
    raise ValueError(f"{text!r}: {option!r} must be followed by = and a number or a word")
