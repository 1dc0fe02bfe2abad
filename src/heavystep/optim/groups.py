"""Parameter groups whose options are in range and agree."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor, nn

from heavystep import validation
from heavystep.methods import Method
from heavystep.rules import Option

Group = dict[str, Any]
WEIGHT_DECAY = Option(
    "weight_decay", 0.0, validation.NON_NEGATIVE, "decay lambda, >= 0. May differ by group."
)
DECAY = Option(
    "decay",
    "decoupled",
    ("decoupled", "objective"),
    '"decoupled": parameters are multiplied by 1 - gamma_k * lambda (where momentum averages: '
    "divided by 1 + gamma_k * lambda / (1 - beta_k)) and the rule sees the data loss alone; "
    '"objective": (lambda/2) ||theta||^2 is part of the loss, of the gradient and of trial losses.',
)
FOREACH = Option(
    "foreach",
    None,
    (None, True, False),
    "multi-tensor kernels (None or True), or one tensor after another (False).",
)
EVERY_OPTIMIZER = (WEIGHT_DECAY, DECAY, FOREACH)
"""Options that belong to no rule."""
EXAMPLE_LOSS = Option(
    "example_loss",
    0.0,
    validation.NON_NEGATIVE,
    "the loss of an example that a network gets wrong, in the unit of the loss: 1 for "
    "cross-entropy. A smaller mean comes from few examples, and what rounding makes of it falls "
    "with its square root only. So where loss_eps is that of a mean as large as this, it is "
    "multiplied by the root of example_loss / loss below. 0: loss_eps as it is.",
)
EVERY_SEARCH = (EXAMPLE_LOSS,)
"""Options that belong to no rule, of optimizers that compare losses."""
MAY_DIFFER = frozenset({"lr", "weight_decay"})
"""Options that parameter groups need not share."""


def common_options(method: Method) -> tuple[Option, ...]:
    """The options of a method's optimizer that are not the method's own."""
    return (*EVERY_OPTIMIZER, *(EVERY_SEARCH if method.rule.searches else ()))


def check_options(method: Method, options: Mapping[str, Any]) -> None:
    """Refuse options out of range."""
    method.check(options)
    for option in common_options(method):
        option.check(options[option.name])


def check_groups(method: Method, groups: list[Group], names: set[str]) -> None:
    """Refuse options out of range, whatever a scheduler did to them, and groups that disagree.

    Args:
        method: whose options they are.
        groups: all parameter groups.
        names: the options on which groups must agree, unless they may differ.
    """
    first = groups[0]
    for group in groups:
        # A learning rate on the device must not be read at every step.
        on_device = isinstance(group["lr"], Tensor)
        check_options(method, {**group, "lr": 1.0} if on_device else group)
        for name in names - {"lr"}:
            if isinstance(group[name], Tensor):  # a change in place would go unnoticed
                raise TypeError(
                    f"{validation.label(name)} must be a plain number, got {group[name]!r}: only "
                    "lr may be a tensor"
                )
        if group is first:
            continue
        for name in names - MAY_DIFFER:
            if group[name] != first[name]:
                validation.disagree(name, (g[name] for g in groups))
    if method.chosen(first) is not method:
        raise ValueError(
            f"scaling must stay what it was when the optimizer was made, got {first['scaling']!r}, "
            f"which is another rule with another memory: give {method.name} itself this scaling"
        )


def unchanged(options: list[Any], before: list[Any]) -> bool:
    """Whether options are what they were. Tensors on a device are, if they are the same tensors."""
    return len(options) == len(before) and all(
        new is old or (not isinstance(new, Tensor | np.ndarray) and new == old)
        for new, old in zip(options, before, strict=True)
    )


def check_params(owner: str, params: list[Tensor], device: Any) -> None:
    """Refuse parameters that are not real numbers on one device.

    Args:
        owner: the optimizer's name.
        params: of one group.
        device: that of the first parameter of all groups.
    """
    for param in params:
        if not param.is_floating_point():
            kind = "complex" if param.is_complex() else str(param.dtype)
            raise TypeError(
                f"{owner} needs real floating-point parameters, got {kind}: "
                "optimize torch.view_as_real(parameter) instead of a complex one"
            )
        if param.device != device:
            raise ValueError(
                f"all parameters must be on one device, got {device} and {param.device}: "
                "one step size is chosen from the loss and the gradient of all of them"
            )


def plain_numbers(options: Mapping[str, Any]) -> Group:
    """Options as Python's numbers, which a checkpoint can hold safely; ``lr`` may be a tensor."""
    return {
        name: value if name == "params" else _plain(name, value) for name, value in options.items()
    }


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Tensor) and value.numel() != 1 and name == "lr":
        raise ValueError(
            f"{validation.label(name)} must be one number, got shape {tuple(value.shape)}: Tensor "
            "lr must be 1-element"
        )
    if isinstance(value, Tensor) and value.numel() == 1:
        # A view: whoever changes the tensor in place changes the learning rate.
        rate = value.reshape(()) if value.ndim else value
        return rate if name == "lr" else value.item()
    return value


def with_lr_of_groups(params: Any, options: Group) -> tuple[Any, Group]:
    """Parameters and options; a learning rate that was not given is that of the first group.

    So it is if every group has one of its own; otherwise it stays out, for the method to ask for.

    Args:
        params: as an optimizer is given them.
        options: those given, None for a learning rate that was not.

    Raises:
        TypeError: a model was given, not its parameters.
    """
    if isinstance(params, nn.Module):
        name = type(params).__name__
        raise TypeError(f"params must be parameters, got a {name}: give model.parameters()")
    if "lr" not in options or options["lr"] is not None:
        return params, options
    left = {name: value for name, value in options.items() if name != "lr"}
    if isinstance(params, Tensor):
        return params, left
    groups = list(params)
    own = [group.get("lr") for group in groups if isinstance(group, dict)]
    if not own or len(own) < len(groups) or any(lr is None for lr in own):
        return groups, left
    return groups, {**options, **plain_numbers({"lr": own[0]})}
