"""A rule at work in an optimizer: on the device, or on the host with trial losses."""

from collections.abc import Callable
from math import inf, sqrt
from typing import Any, NamedTuple

import torch
from torch import Tensor

from heavystep import validation
from heavystep.optim import torch_primitives
from heavystep.optim.groups import Group
from heavystep.optim.sample import Measure, Sample
from heavystep.optim.speaking import warn_caller
from heavystep.optim.torch_primitives import as_scalar
from heavystep.rules import Rule, Search, Seen, is_finite, where


class Decision(NamedTuple):
    """What a rule decided and on what: 0-dim tensors, or numbers where the host decided.

    The fields are those of :class:`StepInfo`; ``base_step`` counts only if accepted.
    """

    base_step: Any
    accepted: Any
    capped: Any
    loss: Any
    grad_sqnorm: Any
    trials: int = 0
    momentum: Any = None
    """The momentum that the rule chose for this step; None: that of the groups."""
    lower_bound: Any = None
    """The lower bound that the rule saw; None: it saw none."""
    weight: Any = 1.0
    """Of the next point in the average, where the momentum form averages."""

    def outcome(self, group: Group) -> dict[str, Any]:
        """What ``info`` tells of it.

        Args:
            group: the first one.
        """
        base_step, grad_sqnorm = self.base_step, self.grad_sqnorm
        if isinstance(grad_sqnorm, Tensor):
            base_step = as_scalar(base_step, grad_sqnorm.dtype, grad_sqnorm.device)
        base_step = where(self.accepted, base_step, 0.0)
        told = {name: each for name, each in self._asdict().items() if name not in _INTERNAL}
        told |= {"base_step": base_step, "step": group["lr"] * base_step}
        return {**told, "max_step": group.get("max_step")}


_INTERNAL = ("momentum", "weight")
"""What only the move of the parameters needs."""


def bound_for(group: Group, given: Any) -> Any:
    """The lower bound given for one step, or else the optimizer's; -inf if there is none."""
    if given is None:
        known = group.get("lower_bound")
        return -inf if known is None else known
    if isinstance(given, Tensor) and given.numel() == 1:
        return given.detach().reshape(())
    validation.real("lower_bound", given, validation.FINITE)
    return given


def common_bound(given: Any, measure: Measure) -> Any:
    """The bound that all processes use for one step: as of their losses, the mean."""
    return None if given is None else measure.mean(bound_for({}, given))


def device_memory(rule: Rule, group: Group, measure: Measure) -> Any:
    """The memory of a rule that decides on the device, as tensors that stay in place."""
    for name in rule.memory:
        value = group[name]
        if not isinstance(value, Tensor):
            group[name] = measure.scalar(value)
        elif value.device != measure.device or value.dtype != measure.dtype:
            group[name] = value.to(measure.device, measure.dtype)
    return rule.Memory(*(group[name] for name in rule.memory))


def decide_on_device(
    rule: Rule, constants: Any, group: Group, sample: Sample, measure: Measure, lower_bound: Any
) -> Decision:
    """The decision of a closed form; nothing waits for the device.

    Args:
        rule: which needs no trials.
        constants: what its options come to.
        group: its options and its memory.
        sample: the batch.
        measure: format and place of numbers.
        lower_bound: for this step, if one was given.
    """
    bound = bound_for(group, lower_bound)
    if isinstance(bound, Tensor):
        bound = bound.to(measure.dtype)
    seen = Seen(
        loss=0.0 if sample.loss is None else sample.loss,
        lower_bound=bound,
        loss_eps=sample.coarsest_eps() if "loss_eps" in rule.reads else 0.0,
        **sample.products,
    )
    memory = device_memory(rule, group, measure)
    place, usable = memory, sample.rates_are_in_range()
    if torch_primitives.reads_for_free(measure.device):
        # Dozens of operations on tensors of one number take ten times as long as on numbers.
        memory, seen, usable = _on_host(memory), _on_host(seen), bool(usable)
    search, weight = rule.start(constants, memory, seen), rule.weigh(constants, memory)
    step = _apart(measure.held(search.step), memory)
    accepted = search.accepted & is_finite(step) & is_finite(seen.grad_sqnorm) & usable
    kept = [
        _apart(where(accepted, new, old), memory)
        for new, old in zip(rule.remember(constants, memory, seen, search), memory, strict=True)
    ]
    # All of it is known before the first is overwritten: a rule may pass its memory on.
    for old, new in zip(place, kept, strict=True):
        # In place, so that a captured CUDA graph finds its memory again.
        old.copy_(new) if isinstance(new, Tensor) else old.fill_(measure.held(new))
    capped = accepted & search.capped
    if not isinstance(accepted, Tensor):
        step = measure.scalar(step)
        accepted, capped = (torch.tensor(bool(each)) for each in (accepted, capped))
    return Decision(
        step, accepted, capped, sample.loss, sample.grad_sqnorm,
        momentum=search.momentum if rule.steers else None, lower_bound=_known(bound), weight=weight,
    )  # fmt: skip


def _on_host(numbers: Any) -> Any:
    """The same fields, as Python's numbers."""
    return numbers._make(each.item() if isinstance(each, Tensor) else each for each in numbers)


def _known(bound: Any) -> Any:
    """A lower bound, or None where there is none."""
    return bound if isinstance(bound, Tensor) or bound != -inf else None


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


class HostRule:
    """A rule that decides on the host, for one step: it reads losses at trial points.

    Args:
        rule: which searches.
        constants: what its options come to.
        group: its options and its memory.
        sample: the batch.
    """

    def __init__(self, rule: Rule, constants: Any, group: Group, sample: Sample) -> None:
        self._rule, self._constants = rule, constants
        self._group, self._sample = group, sample
        self._memory = rule.Memory(*(group[name] for name in rule.memory))
        # A first trial beyond the format of the parameters would make them infinite.
        self._largest = min((torch.finfo(p.dtype).max for p in sample.params), default=inf)

    def seen(self, numbers: list[float], lower_bound: Any = None) -> Seen:
        """What the rule looks at, from the loss and the inner products of the sample."""
        loss, *products = numbers
        if isinstance(lower_bound, Tensor) and lower_bound.numel() == 1:
            lower_bound = lower_bound.item()
        given = self._group.get("loss_eps")
        eps = self._sample.coarsest_eps() if given is None else given
        return Seen(
            loss=loss,
            lower_bound=float(bound_for(self._group, lower_bound)),
            loss_eps=eps * growth_of_rounding(loss, self._group["example_loss"]),
            **dict(zip(self._sample.products, products, strict=True)),
        )

    def begun(self, seen: Seen) -> Search:
        """The search before its first trial."""
        search = self._rule.start(self._constants, self._memory, seen)
        search = search._replace(trial=min(search.trial, self._largest))
        return self._rule.skip(self._constants, self._memory, seen, search)

    def finished(self, seen: Seen, search: Search, trial_loss: Callable[[float], float]) -> Search:
        """The search after as many trials as it takes."""
        while search.active:
            loss = trial_loss(search.trial)
            search = self._rule.advance(self._constants, self._memory, seen, search, loss)
        return search

    def conclude(self, seen: Seen, search: Search) -> Decision:
        """The decision; the rule remembers the step unless the batch is refused."""
        finite = is_finite(search.step) and is_finite(seen.grad_sqnorm)
        finite = finite and bool(self._sample.rates_are_in_range())
        found = search.accepted
        search = search._replace(accepted=found and finite)
        weight = self._rule.weigh(self._constants, self._memory)
        if search.accepted:
            new = self._rule.remember(self._constants, self._memory, seen, search)
            self._group.update(zip(self._rule.memory, new, strict=True))
        elif search.trials and not found:
            # Without numbers, which info has: the same text is shown once and not at every step.
            warn_caller(
                "line search failed: no trial lost enough, and the batch was refused. If this goes "
                f"on, {self._advice(seen)}"
            )
        return Decision(
            search.step, search.accepted, search.accepted and search.capped, seen.loss,
            seen.grad_sqnorm, search.trials, search.momentum if self._rule.steers else None,
            _known(seen.lower_bound), weight,
        )  # fmt: skip

    def _advice(self, seen: Seen) -> str:
        """What helps a search that fails again and again: what is not done yet."""
        bound = "give a lower_bound (0 for most losses), which skips trials that cannot succeed"
        ways = [bound] if seen.lower_bound == -inf else []
        ways += [] if self._group.get("max_step") is None else ["lower max_step"]
        return ", ".join([*ways, "raise max_trials"])


def host_numbers(sample: Sample) -> Tensor:
    """What a rule on the host looks at, as one tensor to be read at once."""
    assert sample.loss is not None
    return torch.stack([sample.loss, *sample.products.values()])
