"""A state is loaded into the optimizer that it was saved by, or refused.

Torch takes any state with as many parameters. Another optimizer's would set options of the same
names, such as ``lr``, leave the others as they are, and train on with both.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from heavystep.methods import METHODS, Method
from heavystep.momentum.diagonal import WEIGHT
from heavystep.optim.groups import DECAY, Group, check_options, common_options
from heavystep.optim.shapes import check_buffers

SHOWN = 6
"""How many names a message has."""


def complete_loaded(method: Method, state: Mapping[Any, Any], groups: list[Group]) -> None:
    """Refuse what is no state of this method, and fill in what earlier versions did not have.

    Args:
        method: of the optimizer, with the rule that the state asks for.
        state: of all parameters.
        groups: all groups, in which options that every method has are filled in.

    Raises:
        ValueError: it lacks something, has something of another optimizer, or a value is out of
            range.
    """
    needed = {DECAY.name, *(option.name for option in method.all_options), *method.rule.memory}
    common = {option.name: option.default for option in common_options(method)}
    for group in groups:
        _check_names(method, needed, group)
        _check_values(method, {**common, **group})
    known = {*method.buffers, *(() if method.diagonal is None else (WEIGHT,))}
    for kept in state.values():
        if strangers := sorted(map(str, set(kept) - known)):
            raise _foreign(method, f"a parameter has {_listed(strangers)}")
        for name, value in kept.items():
            if not isinstance(value, Tensor) or not value.is_floating_point():
                raise _foreign(method, f"{name} must be a tensor of numbers, got {value!r}")
            if name == WEIGHT and value.ndim:
                raise _foreign(method, f"{name} must be one number, got {tuple(value.shape)}")
    check_buffers(method.buffers, state, groups)
    for group in groups:
        for name, value in common.items():
            group.setdefault(name, value)


def _check_names(method: Method, needed: set[str], group: Group) -> None:
    missing = sorted(needed - set(group))
    # Groups may have names of schedulers and users, too.
    strange = sorted((_names_of_methods() - needed) & set(group))
    if missing or strange:
        lacks = f"its groups lack {_listed(missing)}" if missing else ""
        has = f"its groups have {_listed(strange)}" if strange else ""
        raise _foreign(method, " and ".join(filter(None, (lacks, has))))


def _check_values(method: Method, group: Group) -> None:
    on_device = isinstance(group["lr"], Tensor)
    for option in method.all_options:
        if option.name != "lr" and isinstance(group[option.name], Tensor):
            raise _foreign(method, f"{option.name} must be a plain number, and is a tensor")
    try:
        check_options(method, {**group, "lr": 1.0} if on_device else group)
    except (TypeError, ValueError) as error:
        raise _foreign(method, str(error)) from None
    for name in ("lr", *method.rule.memory):
        value = group[name]
        if isinstance(value, bool) or not isinstance(value, (int, float, Tensor)):
            raise _foreign(method, f"{name} must be a number, got {value!r}")
        if isinstance(value, Tensor) and value.numel() != 1:
            raise _foreign(method, f"{name} must be one number, got {tuple(value.shape)}")


def _names_of_methods() -> set[str]:
    """What groups of other methods have."""
    rules = [rule for m in METHODS.values() for rule in (m.rule, *m.by_scaling.values())]
    options = (option.name for method in METHODS.values() for option in method.all_options)
    return {*options, *(name for rule in rules for name in rule.memory)}


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:SHOWN]))
    return shown + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _foreign(method: Method, reason: str) -> ValueError:
    return ValueError(
        f"the state is not one of {method.name}, and nothing was loaded: {reason}. Load the state "
        "of the optimizer that is to go on; a new kind of optimizer begins without one"
    )
