"""What a step works with: the batch as a rule sees it, and what the rule decided."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from heavystep.optim.closures.trials import TrialPoints
from heavystep.optim.options import Group
from heavystep.optim.ranks import local


class Active(NamedTuple):
    """A parameter group reduced to the parameters that have a gradient."""

    group: Group
    params: list[Tensor]
    grads: list[Tensor]

    @property
    def places(self) -> list[Tensor]:
        """What this process holds of the parameters, in place."""
        return [local(param) for param in self.params]

    @property
    def slopes(self) -> list[Tensor]:
        """What this process holds of the gradients."""
        return [local(grad) for grad in self.grads]


class Sample(NamedTuple):
    """Loss and gradient of one batch, as the rule sees them."""

    groups: list[Active]
    loss: Tensor | None
    grad_sqnorm: Tensor
    loss_dtype: torch.dtype
    """The format in which the loss was handed over."""
    trials: TrialPoints | None = None
    """Where the loss can be evaluated again, for rules that search."""

    @property
    def params(self) -> list[Tensor]:
        """All parameters that have a gradient, as far as this process holds them."""
        return [place for active in self.groups for place in active.places]

    @property
    def grads(self) -> list[Tensor]:
        """Their gradients, in the same order."""
        return [slope for active in self.groups for slope in active.slopes]


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
