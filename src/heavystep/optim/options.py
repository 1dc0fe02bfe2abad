"""Options of parameter groups: checked when they change, refused when a state does not fit."""

from collections.abc import Mapping
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from heavystep import __version__, validation
from heavystep.methods import METHODS, Method
from heavystep.momentum import SQUARE_WEIGHT, SQUARES
from heavystep.rules import Option

Group = dict[str, Any]
WEIGHT_DECAY = Option(
    "weight_decay",
    0.0,
    validation.NON_NEGATIVE,
    "decay lambda, >= 0. May differ by group. HeavyStep divides parameters by 1 + lambda / (k + 9) "
    "at step k, whatever the step is: begin with 0.1 there.",
)
DECAY = Option(
    "decay",
    "decoupled",
    ("decoupled", "objective"),
    '"decoupled": parameters are multiplied by 1 - gamma_k * lambda (where momentum averages: '
    "divided by 1 + gamma_k * lambda) and the rule sees the data loss alone; "
    '"objective": (lambda/2) ||theta||^2 is part of the loss, of the gradient and of trial losses.',
)
EXAMPLE_LOSS = Option(
    "example_loss",
    0.0,
    validation.NON_NEGATIVE,
    "the loss of an example that a network gets wrong, in the unit of the loss: 1 for "
    "cross-entropy. Below this loss the rounding error of a mean shrinks only as the root of the "
    "loss, so that loss_eps is multiplied by sqrt(example_loss / loss). 0: loss_eps as it is.",
)
STOCHASTIC_ROUNDING = Option(
    "stochastic_rounding",
    False,
    (False, True),
    "whether parameters in bfloat16 are rounded at random, so that small moves count on average, "
    "and their state is kept in bfloat16 too. Otherwise state is in float32.",
)
DRAWS = "draws"
"""The entry of a parameter group that counts its randomly rounded steps, the seed of each. On a GPU
refused batches count, too."""
MAY_DIFFER = {"lr", "weight_decay"}  # options that parameter groups need not share


def common_options(method: Method) -> tuple[Option, ...]:
    """The options of a method's optimizer that are not the method's own."""
    having = {
        WEIGHT_DECAY: True,
        DECAY: not method.rule.sets_decay,
        STOCHASTIC_ROUNDING: method.form.averages,
        EXAMPLE_LOSS: method.rule.searches,
    }
    return tuple(option for option, has in having.items() if has)


def foreign_names(method: Method, group: Mapping[str, Any]) -> list[str]:
    """Entries of a group that are options or memory of other methods."""
    needed = {*option_names(method), *method.rule.slots}
    others = {n for m in METHODS.values() for n in (*option_names(m), *m.rule.memory)}
    return sorted((others - needed) & set(group))


def option_names(method: Method) -> list[str]:
    """All options that a parameter group has."""
    return [option.name for option in (*method.all_options, *common_options(method))]


def check_options(method: Method, options: Mapping[str, Any]) -> None:
    """Refuse options out of range; a learning rate in a tensor must not be read at every step."""
    if isinstance(options["lr"], Tensor):
        options = {**options, "lr": 1.0}
    method.check(options)
    for option in common_options(method):
        option.check(options[option.name])


def check_groups(method: Method, groups: list[Group]) -> None:
    """Refuse options out of range, whatever a scheduler did to them, and groups that disagree."""
    first = groups[0]
    for group in groups:
        check_options(method, group)
        for name in option_names(method):
            if name != "lr" and isinstance(group[name], Tensor):
                raise TypeError(
                    f"{validation.label(name)} must be a plain number, got {group[name]!r}: only "
                    "lr may be a tensor"
                )
            if name not in MAY_DIFFER and group[name] != first[name]:
                validation.disagree(name, (g[name] for g in groups))


def check_params(owner: str, params: list[Tensor], device: Any) -> None:
    """Refuse parameters that are not real numbers on the one device."""
    for param in params:
        if not param.is_floating_point():
            kind = "complex" if param.is_complex() else str(param.dtype)
            raise TypeError(
                f"{owner} needs real floating-point parameters, got {kind}: "
                "optimize torch.view_as_real(parameter) instead of a complex one"
            )
        if getattr(param, "_fsdp_flattened", False):
            raise ValueError(
                f"{owner} cannot see whole parameters behind FullyShardedDataParallel (FSDP 1): "
                "use fully_shard (FSDP 2), or DistributedDataParallel"
            )
        if param.device != device:
            raise ValueError(
                f"all parameters must be on one device, got {device} and {param.device}: "
                "one step size is chosen from the loss and the gradient of all of them"
            )


def plain_numbers(options: Mapping[str, Any]) -> Group:
    """Options as Python's numbers, which a checkpoint can hold safely; ``lr`` may be a tensor."""
    plain = dict(options)
    for name, value in options.items():
        if isinstance(value, np.generic):
            plain[name] = value.item()
        elif isinstance(value, Tensor) and name == "lr":
            if value.numel() != 1:
                raise ValueError(
                    f"{validation.label(name)} must be one number, got shape "
                    f"{tuple(value.shape)}: Tensor lr must be 1-element"
                )
            # A view: whoever changes the tensor in place changes the learning rate.
            plain[name] = value.reshape(()) if value.ndim else value
        elif isinstance(value, Tensor) and name != "params" and value.numel() == 1:
            plain[name] = value.item()
    return plain


def with_lr_of_groups(params: Any, options: Group) -> tuple[Any, Group]:
    """Parameters and options; a learning rate that was not given is that of the first group.

    So it is if every group has one of its own; otherwise it stays out, for the method to ask for.
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
    own = [group.get("lr") if isinstance(group, dict) else None for group in groups]
    if not own or any(lr is None for lr in own):
        return groups, left
    return groups, {**options, **plain_numbers({"lr": own[0]})}


def check_loaded(method: Method, state: Mapping[Any, Any], groups: list[Group]) -> None:
    """Refuse what is no state of this method; a refused one has changed nothing.

    Torch takes any state with as many parameters. Another optimizer's would set options of the
    same names, such as ``lr``, leave the others as they are, and train on with both.
    """
    names, slots = option_names(method), method.rule.slots
    needed = {*names, *slots}
    numbers = {name: slot.allowed for name, slot in slots.items()}
    numbers |= dict.fromkeys(("lr", "step", DRAWS), validation.NON_NEGATIVE)
    metric = groups[0].get("diagonal", method.diagonal)
    shaped = {method.form.buffer, *((SQUARES,) if metric == "element" else ())}
    known = {method.form.buffer, *((SQUARES, SQUARE_WEIGHT) if any(method.diagonals) else ())}
    try:
        for group in groups:  # which may have names of schedulers and users, too
            lacks, has = sorted(needed - set(group)), foreign_names(method, group)
            if lacks or has:
                flaws = {"lack": lacks, "have": has}
                told = [f"its groups {verb} {_listed(n)}" for verb, n in flaws.items() if n]
                raise ValueError(" and ".join(told))
            for name, allowed in numbers.items():
                validation.real(name, group.get(name, 0.0), allowed)
        check_groups(method, groups)
        for kept in state.values():
            for name, value in kept.items():
                if name not in known:
                    raise ValueError(f"a parameter has {name!r}")
                _check_kept(name, value, -inf if name == method.form.buffer else 0.0)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the state is not one of {method.name} (heavystep {__version__}), and nothing was "
            f"loaded: {error}. Load the state of the optimizer that is to go on; another kind of "
            "optimizer, or another version, begins without one"
        ) from None
    for param, kept in state.items():
        for name in shaped & set(kept):
            if isinstance(param, Tensor) and not has_shape_of(param, kept[name]):
                raise misshapen(name, kept[name], param, groups)


def _check_kept(name: str, value: Any, least: float) -> None:
    """Refuse what cannot be kept of a parameter."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        raise TypeError(f"{name} must be a tensor of numbers, got {value!r}")
    if name == SQUARE_WEIGHT and value.ndim:
        raise ValueError(f"{name} must be one number, got {tuple(value.shape)}")
    here = local(value)
    if not value.is_meta and not (here.isfinite() & (here >= least)).all():
        raise ValueError(f"{name} of a parameter has numbers out of range")


def _listed(names: list[str], shown: int = 6) -> str:
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(map(repr, names[:shown])) + more


def misshapen(what: str, tensor: Tensor, param: Tensor, groups: list[Group]) -> ValueError:
    """The refusal of a tensor that does not fit its parameter."""
    places = ((i, k) for i, group in enumerate(groups) for k in range(len(group["params"])))
    i, k = next((i, k) for i, k in places if groups[i]["params"][k] is param)
    names = groups[i].get("param_names")
    advice = (
        "call zero_grad() and backward() after exchanging a parameter"
        if what == "gradient"
        else "load a state of this model, or make a new optimizer for a new parameter"
    )

    def shape(tensor: Tensor) -> str:
        part = local(tensor)
        return f"{tuple(tensor.shape)}" + ("" if part is tensor else f", here {tuple(part.shape)}")

    return ValueError(
        f"the {what} of parameter {k} in group {i}{f' ({names[k]})' if names else ''} must have "
        f"its shape {shape(param)}, got {shape(tensor)}: {advice}"
    )


def has_shape_of(param: Tensor, tensor: Tensor) -> bool:
    """True if a tensor has a parameter's shape and is sharded in the same way."""
    return tensor.shape == param.shape and local(tensor).shape == local(param).shape


def local(tensor: Tensor) -> Tensor:
    """This process's part of a tensor: of a DTensor its shard, else the tensor itself."""
    shard: Any = getattr(tensor, "to_local", None)
    return tensor if shard is None else shard()


def checked_bound(given: Any) -> Any:
    """The lower bound given for one step: a number, or a 0-dim tensor."""
    if isinstance(given, Tensor) and given.numel() == 1:
        return given.detach().reshape(())
    validation.real("lower_bound", given, validation.FINITE)
    return given


def state_dtype(dtype: torch.dtype) -> torch.dtype:
    """Format of buffers and scalars: at least float32."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def keep_wide(saved: Group, params: list[Tensor], state: Mapping[Any, Any]) -> None:
    """Undo what torch does to a state that it loads: it rounds it to the parameter's format."""
    saved_ids = [i for group in saved["param_groups"] for i in group["params"]]
    for saved_id, param in zip(saved_ids, params, strict=True):
        dtype = state_dtype(param.dtype)
        if param.dtype == dtype:
            continue
        for name, value in saved["state"].get(saved_id, {}).items():
            if value.dtype != param.dtype:  # of a state that was checked
                state[param][name] = value.detach().to(param.device, dtype, copy=True)
