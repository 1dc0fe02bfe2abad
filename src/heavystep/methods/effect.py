"""Options that would change nothing: refused, so that nobody trusts in them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from heavystep import validation
from heavystep.rules import REQUIRED

if TYPE_CHECKING:
    from heavystep.methods.method import Method

SCALING = "scaling"
SOME = 2.0
"""Stands for a number where there was none."""


def without_effect(method: "Method", options: Mapping[str, Any]) -> list[str]:
    """Options that are not at their defaults, and without which all steps would be the same.

    What the rule that a ``scaling`` chose does not look at is found by asking the rule, so that no
    list has to be kept.

    Args:
        method: whose options they are.
        options: all that are left to users, in range.

    >>> from heavystep.methods import SHB_POLYAK
    >>> usual = {option.name: option.default for option in SHB_POLYAK.options}
    >>> without_effect(SHB_POLYAK, {**usual, "growth": 3.0, "outlook": 2.0})
    ['growth']
    """

    def settled(options: Mapping[str, Any]) -> Mapping[str, Any]:
        return method.rule.settle({**method.fixed, **options})

    def looked_at(options: Mapping[str, Any]) -> Any:
        return method.chosen(options).rule.looks_at(options)

    # An option that another one only switches off, such as the growth of a reset, may be given.
    given = {option.name: SOME for option in method.options if option.optional}
    own = {option.name for option in method.rule.options} - {SCALING}
    now, found = settled(options), []
    compared = (o for o in method.options if o.name in own and o.default is not REQUIRED)
    for name, default in ((option.name, option.default) for option in compared):
        usual = settled({**options, name: default})
        # None turns an option off, which is also what a rule without it does.
        if now[name] in (None, usual[name]):
            continue
        beside = {other: value for other, value in given.items() if other != name}
        if looked_at({**now, **beside}) == looked_at({**usual, **beside}):
            found.append(name)
    return found


def check_effect(method: "Method", options: Mapping[str, Any]) -> None:
    """Refuse options that would change nothing, and say what to do.

    Args:
        method: whose options they are.
        options: all that are left to users, in range.
    """
    for name in without_effect(method, options):
        here = f" with scaling={options[SCALING]!r}" if method.by_scaling else ""
        scalings = [
            repr(other)
            for other in _scalings(method)
            if name not in without_effect(method, {**options, SCALING: other})
        ]
        hint = f", or choose scaling={' or '.join(scalings)}" if scalings else ""
        raise ValueError(f"{validation.label(name)} has no effect{here}: leave it out{hint}")


def check_none(method: "Method", chosen: "Method", options: Mapping[str, Any]) -> None:
    """Refuse None where only another rule of the method knows what it means.

    Args:
        method: whose options they are.
        chosen: the same with the rule that they ask for.
        options: all of them.
    """
    optional = {option.name for option in method.options if option.optional}
    for option in chosen.options:
        if options[option.name] is None and option.name in optional and not option.optional:
            usual = next(iter(_scalings(method)))
            raise TypeError(
                f"{validation.label(option.name)} must be a number with scaling="
                f"{options[SCALING]!r}, got None, which only scaling={usual!r} (the default) takes"
            )


def _scalings(method: "Method") -> tuple[str, ...]:
    """The values of ``scaling`` among which users choose a rule; none if there is one rule."""
    usual = (option.default for option in method.options if option.name == SCALING)
    return (*usual, *method.by_scaling) if method.by_scaling else ()
