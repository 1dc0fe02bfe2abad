"""The batch as a rule sees it: loss, norms and bounds over all parameter groups and processes."""

import math
from math import inf
from typing import Any, NamedTuple

import torch
from torch import Tensor

from heavystep.methods import Method
from heavystep.optim import torch_primitives
from heavystep.optim.groups import Group
from heavystep.optim.ranks import Ranks, local, whole
from heavystep.optim.shapes import check_shapes
from heavystep.optim.torch_primitives import as_scalar
from heavystep.rules import PRODUCTS


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


def active_of(
    group: Group,
    owner: str,
    method: Method,
    state: dict[Any, Any],
    groups: list[Group],
) -> Active:
    """The parameters of a group that have a gradient; weight decay in the objective is part of it.

    For a rule that remembers products with the position, a parameter that had a gradient before
    has the gradient 0 if it has none now: its part of what is remembered fades.

    Args:
        group: the group.
        owner: the optimizer's name, for messages.
        method: whose state it is.
        state: of all parameters.
        groups: all groups, for messages.
    """
    complete = "direction_position" in method.rule.reads
    params: list[Tensor] = []
    grads: list[Tensor] = []
    for param in group["params"]:
        grad = param.grad
        if complete and grad is None and param in state:
            grad = torch.zeros_like(param)
        if grad is None or not param.requires_grad:
            continue
        if grad.layout != torch.strided:
            raise TypeError(
                f"{owner} does not support sparse gradients, got layout {grad.layout}: use dense "
                "embeddings (sparse=False)"
            )
        params.append(param)
        grads.append(grad)
    check_shapes(method.buffers, params, grads, state, groups)
    if group["decay"] == "objective" and group["weight_decay"] and params:
        grads = list(torch._foreach_add(grads, params, alpha=group["weight_decay"]))
    return Active(group, params, grads)


PLAIN = "plain_sqnorm"


class Vectors(NamedTuple):
    """What inner products are taken of: what this process holds, in the order of the gradients."""

    lists: dict[str, list[Tensor]]
    """By the names of :data:`heavystep.rules.PRODUCTS`."""
    divisors: list[Tensor | None]
    """The diagonal, None where it is not kept; empty without one."""
    wanted: list[str]
    """Names of the products."""


class Sample(NamedTuple):
    """Loss and gradient of one batch."""

    groups: list[Active]
    loss: Tensor | None
    products: dict[str, Tensor]
    """The inner products that the rule reads, and the squared norm of the gradient."""
    loss_dtype: torch.dtype
    """The format in which the loss was handed over."""
    stretches: list[Any]
    """The diagonal of each group, or None."""

    @property
    def grad_sqnorm(self) -> Tensor:
        """||g||^2, or g' D^-1 g."""
        return self.products["grad_sqnorm"]

    @property
    def params(self) -> list[Tensor]:
        """All parameters that have a gradient, as far as this process holds them."""
        return [place for active in self.groups for place in active.places]

    @property
    def grads(self) -> list[Tensor]:
        """Their gradients, in the same order."""
        return [slope for active in self.groups for slope in active.slopes]

    def rates_are_in_range(self) -> Any:
        """Whether learning rates in tensors are, of which no check has read the value."""
        right: Any = True
        for rate in (active.group["lr"] for active in self.groups):
            if isinstance(rate, Tensor):
                fits = ((rate >= 0.0) & (rate < inf)).all()
                # A copy from the host would wait, and cannot be recorded.
                near = torch_primitives.reads_for_free(rate.device)
                right = right & (bool(fits) if near else fits.to(self.grad_sqnorm.device))
        return right

    def coarsest_eps(self) -> float:
        """Machine epsilon of the coarsest format that the loss is known to pass through."""
        formats = {param.dtype for param in self.params} | {self.loss_dtype}
        kind = self.grad_sqnorm.device.type
        if torch.is_autocast_enabled(kind):
            formats.add(torch.get_autocast_dtype(kind))
        return max(torch.finfo(dtype).eps for dtype in formats)


class Measure:
    """How losses and norms become 0-dim tensors: their format, their place, the processes.

    Args:
        ranks: the processes that take a step together.
        params: all parameters.
        foreach: whether multi-tensor kernels may be used.
    """

    def __init__(self, ranks: Ranks, params: list[Tensor], foreach: bool) -> None:
        wide = any(param.dtype == torch.float64 for param in params)
        self.dtype = torch.float64 if wide else torch.float32
        self.device = params[0].device if params else torch.device("cpu")
        self._ranks, self._foreach = ranks, foreach

    def scalar(self, value: Any) -> Tensor:
        """A number, or a tensor with one element, in this format and place."""
        return as_scalar(value, self.dtype, self.device)

    def held(self, value: Any) -> Any:
        """A finite number as this format holds it: at most its largest one. Tensors do so."""
        largest = torch.finfo(self.dtype).max
        if isinstance(value, Tensor) or not largest < abs(value) < inf:
            return value
        return math.copysign(largest, value)

    def sample(
        self, groups: list[Active], loss: Any, vectors: Vectors | None, stretches: list[Any]
    ) -> Sample:
        """What the rule sees of a batch: one message between processes.

        Args:
            groups: all groups.
            loss: of the batch; None if none was given.
            vectors: what products are taken of, if the squared norm of the gradient is not enough.
            stretches: the diagonal of each group, or None.
        """
        grads = [grad for active in groups for grad in active.grads]
        if vectors is None:
            share = self._ranks.sqnorm_share(grads, self.dtype, self._foreach)
            shares = {"grad_sqnorm": self.scalar(share)}
        else:
            shares = {name: self._product(vectors, name, grads) for name in vectors.wanted}
            if vectors.divisors:
                kept = [g for g, d in zip(grads, vectors.divisors, strict=True) if d is not None]
                plain = self._ranks.sqnorm_share(kept, self.dtype, self._foreach)
                passing = [s.squares_in_passing(self._ranks, self.dtype) for s in stretches]
                shares["grad_sqnorm"] = shares["grad_sqnorm"] + sum(both[0] for both in passing)
                shares[PLAIN] = self.scalar(plain + sum(both[1] for both in passing))
        parts = list(shares.values())
        if loss is not None:
            parts.append(self.objective_share(loss, groups))
        totals = self._ranks.total_of_batch(*parts)
        value = totals.pop() if loss is not None else None
        has_format = isinstance(loss, Tensor) and loss.is_floating_point()
        loss_dtype = loss.dtype if has_format and grads else self.dtype
        products = dict(zip(shares, totals, strict=True))
        if PLAIN in products:
            # A gradient whose square overflows would vanish when it is divided by the diagonal.
            plain, divided = products.pop(PLAIN), products["grad_sqnorm"]
            products["grad_sqnorm"] = torch.where(plain.isfinite(), divided, plain)
        return Sample(groups, value, products, loss_dtype, stretches)

    def _product(self, vectors: Vectors, name: str, grads: list[Tensor]) -> Tensor:
        """This process's part of an inner product, as far as divisors are kept."""
        left, right, divided = PRODUCTS[name]
        one, other = vectors.lists[left], vectors.lists[right]
        if divided and vectors.divisors:
            kept = [
                (i, divisor) for i, divisor in enumerate(vectors.divisors) if divisor is not None
            ]
            one, grads = [one[i] for i, _ in kept], [grads[i] for i, _ in kept]
            other = [other[i].to(divisor.dtype) / divisor for i, divisor in kept]
        elif name == "grad_sqnorm":
            return self.scalar(self._ranks.sqnorm_share(grads, self.dtype, self._foreach))
        return self.scalar(self._ranks.inner_share(one, other, grads, self.dtype))

    def mean(self, value: Any) -> Any:
        """The mean over processes of a number that each of them has; its own if there is one."""
        if self._ranks.count == 1:
            return value
        return self.objective(self._ranks.share(self.scalar(value)))

    def objective_share(self, loss: Any, groups: list[Active]) -> Tensor:
        """What this process adds to the objective: its part of the mean loss and of the decay."""
        return self._ranks.share(self.scalar(whole(loss))) + self._decay_term(groups)

    def objective(self, share: Tensor) -> Tensor:
        """The objective, from the shares of all processes."""
        (total,) = self._ranks.total(share)
        return total

    def _decay_term(self, groups: list[Active]) -> Tensor | float:
        """This process's part of (lambda/2) ||theta||^2, at the present parameters."""
        total: Tensor | float = 0.0
        for group, params, _ in groups:
            if params and group["decay"] == "objective" and group["weight_decay"]:
                sqnorm = self._ranks.sqnorm_share(params, self.dtype, self._foreach)
                total = total + 0.5 * group["weight_decay"] * sqnorm
        return total
