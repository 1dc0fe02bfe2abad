"""A rule at work: a closed form on the host or on the device, a line search with trial losses."""

from collections.abc import Callable
from math import inf, isfinite, sqrt
from typing import Any, NamedTuple

import torch
from torch import Tensor

from heavystep.optim.measure import Measure
from heavystep.optim.options import Group
from heavystep.rules import Rule, Search, Seen, is_finite, where


class Decision(NamedTuple):
    """What a rule decided and on what: numbers on the host, 0-dim tensors on a device."""

    step: Any
    """Before ``lr``; it counts only if accepted."""
    accepted: Any
    capped: Any
    seen: Seen
    search: Search


def remembered(rule: Rule, group: Group) -> Any:
    """The memory of a rule as numbers on the host."""
    kept = [group[name] for name in rule.memory]
    return rule.Memory(*[value.item() if isinstance(value, Tensor) else value for value in kept])


def decide(
    rule: Rule, constants: Any, group: Group, seen: Seen, usable: Any, measure: Measure
) -> Decision:
    """The decision of a closed form; ``usable`` says whether all else is in range."""
    if not measure.near:
        return _decide_on_device(rule, constants, group, seen, usable, measure)
    # Numbers take a tenth of the time of 0-dim tensors.
    memory = remembered(rule, group)
    search = rule.start(constants, memory, seen)
    step = measure.held(search.step)
    accepted = bool(search.accepted and usable) and isfinite(step) and isfinite(seen.grad_sqnorm)
    if accepted and rule.memory:
        new = rule.remember(constants, memory, seen, search)
        group.update(zip(rule.memory, measure.all_held(new), strict=True))
    return Decision(step, accepted, accepted and bool(search.capped), seen, search)


def _decide_on_device(
    rule: Rule, constants: Any, group: Group, seen: Seen, usable: Any, measure: Measure
) -> Decision:
    """The same on 0-dim tensors: nothing waits for the device, and a graph can be recorded."""
    memory = device_memory(rule, group, measure)
    search = rule.start(constants, memory, seen)
    step = _apart(search.step, memory)
    accepted = search.accepted & is_finite(step) & is_finite(seen.grad_sqnorm) & usable
    new = rule.remember(constants, memory, seen, search)
    kept = [_apart(where(accepted, n, old), memory) for n, old in zip(new, memory, strict=True)]
    # All of it is known before the first is overwritten: a rule may pass its memory on.
    for old, each in zip(memory, kept, strict=True):
        # In place, so that a captured CUDA graph finds its memory again.
        old.copy_(each) if isinstance(each, Tensor) else old.fill_(each)
    return Decision(measure.scalar(step), accepted, accepted & search.capped, seen, search)


def device_memory(rule: Rule, group: Group, measure: Measure) -> Any:
    """The memory of a rule that decides on the device, as tensors that stay in place."""
    for name in rule.memory:
        value = group[name]
        if not isinstance(value, Tensor):
            group[name] = measure.scalar(value)
        elif value.device != measure.device or value.dtype != measure.dtype:
            group[name] = value.to(measure.device, measure.dtype)
    return rule.Memory(*(group[name] for name in rule.memory))


def _apart(value: Any, memory: Any) -> Any:
    """The value, copied if it is a part of the memory itself."""
    shared = isinstance(value, Tensor) and any(value is each for each in memory)
    return value.clone() if shared else value


def growth_of_rounding(loss: float, example_loss: float) -> float:
    """How much larger the relative rounding error of a loss is than that of a large one.

    A mean over n examples whose losses are rounded by eps times themselves, and are at most
    e = example_loss, has an error of eps sqrt(sum of squares) / n <= eps sqrt(e loss / n).

    >>> growth_of_rounding(0.01, 1.0), growth_of_rounding(2.0, 1.0), growth_of_rounding(0.01, 0.0)
    (10.0, 1.0, 1.0)
    """
    size = abs(loss)
    return sqrt(example_loss / size) if 0.0 < size < example_loss else 1.0


def first_trial(
    rule: Rule, constants: Any, group: Group, seen: Seen, params: list[Tensor]
) -> Search:
    """A line search before its first trial."""
    search = rule.start(constants, remembered(rule, group), seen)
    # A first trial beyond the format of the parameters would make them infinite.
    largest = min((torch.finfo(param.dtype).max for param in params), default=inf)
    return search._replace(trial=min(search.trial, largest))


def decide_by_trials(
    rule: Rule, constants: Any, group: Group, seen: Seen, search: Search, usable: Any,
    loss_at: Callable[[float], float], tell: Callable[[str], None],
) -> Decision:  # fmt: skip
    """The decision of a line search, after as many trials as it takes; ``tell`` warns."""
    memory, advance = remembered(rule, group), rule.advance
    assert advance is not None
    while search.active:
        search = advance(constants, memory, seen, search, loss_at(search.trial))
    found = search.accepted
    accepted = found and is_finite(search.step) and is_finite(seen.grad_sqnorm) and bool(usable)
    search = search._replace(accepted=accepted)
    if accepted:
        new = rule.remember(constants, memory, seen, search)
        group.update(zip(rule.memory, new, strict=True))
    elif search.trials and not found:
        advice = [
            "give a lower_bound (0 for most losses), which skips trials that cannot succeed",
            "lower max_step",
            "raise max_trials",
        ]
        advice = advice[0 if seen.lower_bound == -inf else 1 :]
        if group.get("max_step") is None:
            advice.remove("lower max_step")
        # Without numbers, which info has.
        tell(
            "line search failed: no trial lost enough, and the batch was refused. If this goes "
            f"on, {', '.join(advice)}"
        )
    return Decision(search.step, accepted, accepted and search.capped, seen, search)
