"""What the adapters ask of an optimizer, whatever a framework wrapped around it."""

from typing import Any

import torch

from heavystep.optim import RuleOptimizer
from heavystep.optimizers import searches


def heavy_ball(optimizer: Any) -> RuleOptimizer | None:
    """The optimizer of this package behind a framework's wrappers; None if it is another one."""
    while not isinstance(optimizer, RuleOptimizer):
        if not hasattr(optimizer, "optimizer"):
            return None
        optimizer = optimizer.optimizer
    return optimizer


def line_search(optimizer: Any) -> RuleOptimizer | None:
    """The same if it searches, that is, if its step needs a closure."""
    inner = heavy_ball(optimizer)
    return inner if searches(inner) else None


def tolerate_rounding(search: RuleOptimizer, dtype: torch.dtype) -> None:
    """Let a search compare losses that an autocast rounded, unless the user gave ``loss_eps``.

    A framework switches autocast on inside the closure, where the optimizer cannot see it.
    """
    for group in search.param_groups:
        if group.get("loss_eps", 0.0) is None:
            group["loss_eps"] = torch.finfo(dtype).eps
