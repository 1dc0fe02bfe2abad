"""Estimate the smoothness constant L of one batch's loss, near the present parameters."""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from heavystep import validation
from heavystep.optim.closure import (
    Buffers,
    Closure,
    Replay,
    checked_buffers,
    evaluate_with_gradients,
)
from heavystep.optim.measure import squared_norm


@dataclass(frozen=True)
class SmoothnessEstimate:
    """An estimate of the smoothness constant L of one sampled loss; see its ``str``."""

    value: float
    """The largest quotient."""
    quotients: tuple[float, ...] = field(repr=False)
    """Each ||g(theta + h v) - g(theta)|| / ||h v||, in order."""
    distance: float = field(repr=False)
    """h, the length of the moves."""

    def __str__(self) -> str:
        return (
            f"estimate L = {self.value:g}: largest of {len(self.quotients)} gradient-difference "
            f"quotients met by a power iteration at distance {self.distance:.3g} from theta; a "
            "local lower bound of this batch's L, up to rounding"
        )


def estimate_smoothness(
    closure: Closure,
    params: Iterable[Tensor],
    *,
    iterations: int = 20,
    radius: float = 1e-3,
    buffers: Buffers = (),
    seed: int = 0,
) -> SmoothnessEstimate:
    r"""Estimate L of the closure's loss by a power iteration on gradient differences.

    .. math:: L \ge \hat L = \max_i \frac{\|g(\theta + h v_i) - g(\theta)\|}{\|h v_i\|}, \qquad
              v_{i+1} \propto g(\theta + h v_i) - g(\theta), \qquad
              h = \mathtt{radius} \cdot \max\{1, \|\theta\|\}

    Every quotient is a lower bound of the batch's L on the ball of radius h around theta, up to the
    rounding of the gradients; the largest approaches it if the Hessian varies little there and its
    largest eigenvalue in magnitude stands out. Nothing is said of other batches or other theta.

    It costs ``iterations`` + 1 evaluations of the closure, with gradients, all with the same random
    numbers. Afterwards parameters, gradients, torch's random streams and ``buffers`` are as if
    nothing had run, also if the closure raises.

    Args:
        closure: returns the loss of the batch; it may call ``backward()`` or not, as for
            ``optimizer.step``.
        params: all parameters that the closure trains, float32 or float64; those that require no
            gradient stay fixed.
        iterations: length of the power iteration, >= 1.
        radius: size of the moves relative to theta, > 0. Rounding adds about eps / radius
            (relative): 1e-4 in float32 and 1e-13 in float64 by default. Take 0.1 if the
            closure computes in half precision.
        buffers: buffers that a forward pass changes, as for :class:`SHBArmijo`.
        seed: of the first direction, drawn apart from torch's global streams.

    Returns:
        The estimate, 0 if all gradients are alike (a linear function).

    Raises:
        ValueError: there is nothing to differentiate, a gradient is not finite, or an
            argument is out of range.

    >>> import torch
    >>> theta = torch.tensor([3.0, -1.0], dtype=torch.float64, requires_grad=True)
    >>> curvature = torch.tensor([2.0, 5.0], dtype=torch.float64)
    >>> estimate = estimate_smoothness(lambda: (curvature * (theta - 1.0) ** 2).sum() / 2, [theta])
    >>> print(estimate)
    estimate L = 5: largest of 20 gradient-difference quotients met by a power iteration...
    """
    validation.integer("iterations", iterations, least=1)
    validation.real("radius", radius, validation.POSITIVE)
    validation.integer("seed", seed, least=0)
    moving = _checked_params(params)
    origin = [param.detach().clone() for param in moving]
    distance = radius * max(1.0, _norm(origin))
    generator = torch.Generator().manual_seed(seed)
    quotients: list[float] = []
    direction: list[Tensor] = []
    replay = Replay(moving[0].device, checked_buffers(buffers)())
    with torch.no_grad(), _unchanged(moving, origin, replay) as before:
        start = _gradient(closure, moving, replay, before)
        for _ in range(iterations):
            if not direction:  # used also after a difference of zero; the same on every device
                direction = [
                    torch.randn(p.shape, generator=generator, dtype=p.dtype).to(p.device)
                    for p in moving
                ]
            torch._foreach_copy_(moving, origin)
            torch._foreach_add_(moving, direction, alpha=distance / _norm(direction))
            # The move after rounding, and not the intended one.
            length = _norm(torch._foreach_sub(moving, origin))
            if length == 0.0:
                nothing = f"changes no parameter in {moving[0].dtype}"
                raise ValueError(f"a move by {distance:g} {nothing}: raise radius")
            difference = torch._foreach_sub(_gradient(closure, moving, replay, before), start)
            norm = _norm(difference)
            quotients.append(norm / length)
            direction = list(difference) if norm else []
    return SmoothnessEstimate(max(quotients), tuple(quotients), distance)


@contextmanager
def _unchanged(params: list[Tensor], origin: list[Tensor], replay: Replay) -> Iterator[Any]:
    """Afterwards parameters, gradients, buffers and random streams are as before; gives these."""
    before, grads = replay.state(), [param.grad for param in params]
    try:
        yield before
    finally:
        torch._foreach_copy_(params, origin)
        for param, grad in zip(params, grads, strict=True):
            param.grad = grad
        replay.restore(before)
        torch.clear_autocast_cache()  # of the parameters where they were moved to


def _gradient(closure: Closure, params: list[Tensor], replay: Replay, before: Any) -> list[Tensor]:
    """The gradient at the present parameters, in new memory."""
    # New gradients: they must not be added to those that are there.
    for param in params:
        param.grad = None
    replay.restore(before)
    evaluate_with_gradients(closure, params, [])
    if all(param.grad is None for param in params):
        raise ValueError(
            "the closure gave no gradient: it must return a loss that depends on params, or "
            "call backward() itself"
        )
    grads = [
        torch.zeros_like(p) if p.grad is None else p.grad.detach().to_dense().to(p, copy=True)
        for p in params
    ]
    if not math.isfinite(_norm(grads)):
        raise ValueError("the gradient is not finite, and neither would be an estimate of L")
    return grads


def _norm(tensors: Iterable[Tensor]) -> float:
    return math.sqrt(squared_norm(list(tensors), torch.float64).item())


def _checked_params(params: Iterable[Any]) -> list[Tensor]:
    """The parameters that require a gradient, each once."""
    given = list(params)
    for param in given:
        if not isinstance(param, Tensor):
            kind = type(param).__name__
            raise TypeError(f"params must hold tensors, got {kind}: pass model.parameters()")
    moving = [param for param in dict.fromkeys(given) if param.requires_grad]
    if not moving:
        raise ValueError(f"params must hold a tensor that requires a gradient, got {len(given)}")
    for param in moving:
        if param.dtype not in (torch.float32, torch.float64):
            raise TypeError(f"params must be float32 or float64, got {param.dtype}")
        if not param.is_leaf:
            raise ValueError("params must be leaves, got the result of an operation: pass [theta]")
        if param.device != moving[0].device:
            devices = f"{moving[0].device} and {param.device}"
            raise ValueError(f"params must be on one device, got {devices}")
    return moving
