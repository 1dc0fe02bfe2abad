"""A rule at work: a closed form on the host or on the device, a line search with trial losses."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from math import inf, isfinite
from typing import Any

from torch import Tensor

from heavystep.optim.measure import Measure
from heavystep.optim.options import Group
from heavystep.rules import Rule, Search, Seen, is_finite, where


def remembered(rule: Rule, group: Group) -> Any:
    """The memory of a rule as numbers on the host."""
    kept = map(group.__getitem__, rule.memory)
    return rule.Memory(*[value.item() if isinstance(value, Tensor) else value for value in kept])


def decide(
    rule: Rule, constants: Any, group: Group, seen: Seen, usable: Any, measure: Measure,
    size: Callable[[], Any] | None = None,
) -> Search:  # fmt: skip
    """The decision of a closed form: 0 where the batch is refused.

    ``usable`` says whether all else is in range; ``size`` measures that of the parameters, if it
    has not been. A step rises with it, so that where 0 and infinity give the same it is not needed.
    """
    if not measure.near:
        return _decide_on_device(rule, constants, group, seen, usable, measure)
    # Numbers take a tenth of the time of 0-dim tensors.
    memory = remembered(rule, group)
    if size is not None:
        least, most = seen._replace(size=0.0), seen._replace(size=inf)
        small, large = (rule.start(constants, memory, end) for end in (least, most))
        kept = rule.remember(constants, memory, least, small)
        if small != large or kept != rule.remember(constants, memory, most, large):
            seen = seen._replace(size=size())
    search = rule.start(constants, memory, seen)
    step = measure.held(search.step)
    accepted = bool(search.accepted and usable) and isfinite(step) and isfinite(seen.grad_sqnorm)
    if accepted and rule.memory:
        new = rule.remember(constants, memory, seen, search)
        group.update(zip(rule.memory, measure.all_held(new), strict=True))
    capped = accepted and bool(search.capped)
    return search._replace(step=step if accepted else 0.0, accepted=accepted, capped=capped)


def _decide_on_device(
    rule: Rule, constants: Any, group: Group, seen: Seen, usable: Any, measure: Measure
) -> Search:
    """The decision on 0-dim tensors: nothing waits for the device, and a graph can be recorded."""
    memory = device_memory(rule, group, measure)
    search = rule.start(constants, memory, seen)
    step = _apart(search.step, memory)
    accepted = search.accepted & is_finite(step) & is_finite(seen.grad_sqnorm) & usable
    new = rule.remember(constants, memory, seen, search)
    kept = [_apart(where(accepted, n, old), memory) for n, old in zip(new, memory, strict=True)]
    # All new values exist before the first old one is overwritten: a rule may pass its memory on.
    for old, each in zip(memory, kept, strict=True):
        # In place, so that a captured CUDA graph finds its memory again.
        old.copy_(each) if isinstance(each, Tensor) else old.fill_(each)
    step, capped = measure.scalar(where(accepted, step, 0.0)), accepted & search.capped
    return search._replace(step=step, accepted=accepted, capped=capped)


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


def decide_by_trials(
    rule: Rule, constants: Any, group: Group, seen: Seen, usable: Any, largest: float,
    ready: Callable[[Search], AbstractContextManager[object]], loss_at: Callable[[float], float],
    tell: Callable[[str], None],
) -> Search:  # fmt: skip
    """The decision of a line search, after as many trials as it takes.

    Trials are made within ``ready(search)``, where parameters can move. ``tell`` warns.
    """
    memory, advance = remembered(rule, group), rule.advance
    assert advance is not None
    search = rule.start(constants, memory, seen)
    # A first trial beyond the format of the parameters would make them infinite.
    search = search._replace(trial=min(search.trial, largest))
    with ready(search):
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
    step, capped = search.step if accepted else 0.0, accepted and search.capped
    return search._replace(step=step, capped=capped)
