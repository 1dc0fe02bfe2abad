"""The iterates and gradients of a recorded run, checked to be one of heavy ball."""

import numpy as np
import torch
from torch import Tensor

from heavystep.arrays import Array
from heavystep.optim.optimizer import RuleOptimizer
from heavystep.records import heavy_ball_defect

ROUNDINGS = 16.0


class RecordedPath:
    """Iterates and sampled gradients, flat, float64, on the CPU; checks that they fit."""

    def __init__(self) -> None:
        self.theta = torch.empty(0)
        """theta_k, before a step that may yet raise."""
        self._iterates: list[Tensor] = []
        self._gradients: list[Tensor] = []
        self._limits = torch.finfo(torch.float64)

    def append(self, optimizer: RuleOptimizer) -> str | None:
        """Record the step from ``theta`` just taken; what is wrong with it, if anything."""
        params, theta = optimizer._all_params, self.theta
        new, gradient = flat(params), _gradient_seen(optimizer, theta)
        moved = bool(self._iterates) and not torch.equal(theta, self._iterates[-1])
        self._limits = max((torch.finfo(p.dtype) for p in params), key=lambda limits: limits.eps)
        self._iterates += [new] if self._iterates else [theta, new]
        self._gradients.append(gradient)
        return "something else than step() had changed the parameters" if moved else None

    def arrays(self, beta: Array, gamma: Array, accepted: Array) -> dict[str, Array]:
        """What was recorded, if each step is a heavy-ball step from those before it."""
        iterates, gradients = (torch.stack(v).numpy() for v in (self._iterates, self._gradients))
        error, size = heavy_ball_defect(
            iterates[None], gamma[None], gradients[None], beta, accepted[None]
        )
        wrong = abs(error) > ROUNDINGS * self._limits.eps * (size + self._limits.tiny)
        if wrong.any():
            raise ValueError(
                f"step {np.nonzero(wrong)[1][0]} is no heavy-ball step from the iterates before "
                "it: attach before the first step, load no other state, keep all gradients and "
                "no weight decay"
            )
        return {"iterates": iterates, "gradients": gradients}


def flat(tensors: list[Tensor]) -> Tensor:
    """One vector in new memory."""
    return torch.cat([t.detach().reshape(-1).to("cpu", torch.float64) for t in tensors])


def _gradient_seen(optimizer: RuleOptimizer, theta: Tensor) -> Tensor:
    """The gradient as the rule saw it at ``theta``: with weight decay in the objective."""
    owned = [(group, param) for group in optimizer.param_groups for param in group["params"]]
    origins = torch.split(theta, [param.numel() for _, param in owned])
    pieces = []
    for (group, param), origin in zip(owned, origins, strict=True):
        grad = param.grad if param.requires_grad else None
        if grad is not None and group["decay"] == "objective" and group["weight_decay"]:
            grad = torch.add(grad, origin.view_as(param).to(param), alpha=group["weight_decay"])
        pieces.append(torch.zeros_like(origin) if grad is None else grad)
    return flat(pieces)
