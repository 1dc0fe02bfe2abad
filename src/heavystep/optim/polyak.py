"""Stochastic heavy ball with the Polyak step size."""

from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from heavystep.optim.adaptive import AdaptiveHeavyBall, Auto
from heavystep.optim.arguments import documented
from heavystep.optim.sample import Decision, Sample
from heavystep.rules import batch_is_finite, polyak_step, remember_step


@documented(
    "params", "lr", "momentum", "c", "max_step", "lower_bound", "scaling", "steps_per_epoch",
    "growth", "weight_decay", "decay", "foreach",
    "process_group",
    c="divisor c of the Polyak ratio, > 0.",
)  # fmt: skip
class SHBPolyak(AdaptiveHeavyBall):
    r"""Stochastic heavy ball with the Polyak step size (SHB-PS).

    .. math:: \gamma_k = \eta_k \min\{\kappa (f_k - \ell_k) / (c \|g_k\|^2),\ \mathrm{cap}_k\}

    The rule is :func:`heavystep.rules.polyak_step`, the cap
    :func:`heavystep.rules.step_cap` and kappa :func:`heavystep.rules.kappa`. It costs one
    pass over the gradients and never waits for the device. Gradients count as they stand in
    ``p.grad``: clip them before ``step`` and the clipped gradient is both the direction and
    the norm in the rule.

    A batch with a non-finite loss or gradient changes nothing. A vanished gradient or a loss
    at or below ``lower_bound`` takes no gradient step while momentum goes on. Parameters
    without a gradient are left alone. See ``info``.

    >>> import torch
    >>> theta = torch.tensor([3.0, -1.0], requires_grad=True)
    >>> opt = SHBPolyak([theta])
    >>> for _ in range(200):
    ...     opt.zero_grad()
    ...     loss = ((theta - torch.tensor([1.0, 2.0])) ** 2).sum()
    ...     loss.backward()
    ...     _ = opt.step(loss=loss)
    >>> print(theta.detach().round(decimals=2))
    tensor([1., 2.])

    Reference: Zhang, Shi and Gu, Section 2 ("theory"), Section 4 ("plain"), Appendix E
    ("practical").
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1.0,
        momentum: float = 0.9,
        *,
        c: float = 1.0,
        max_step: float = 1.0,
        lower_bound: float = 0.0,
        scaling: str = "practical",
        steps_per_epoch: float | Auto | None = "auto",
        growth: float = 4.0,
        weight_decay: float = 0.0,
        decay: str = "decoupled",
        foreach: bool | None = None,
        process_group: Any = None,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "c": c,
                "max_step": max_step,
                "lower_bound": lower_bound,
                "scaling": scaling,
                "steps_per_epoch": steps_per_epoch,
                "growth": growth,
                "weight_decay": weight_decay,
                "decay": decay,
                "foreach": foreach,
            },
            process_group,
        )

    def _decide(self, sample: Sample, lower_bound: Any) -> Decision:
        options = self._options
        last_step = self._last_step(sample.grad_sqnorm)
        cap = self._cap(last_step)
        assert sample.loss is not None
        bound = self._lower_bound(lower_bound)
        if isinstance(bound, Tensor):
            bound = bound.to(sample.loss.dtype)
        step = polyak_step(sample.loss, sample.grad_sqnorm, bound, options["c"], self._kappa(), cap)
        # The gap, and not the loss: a bound given for one step may be NaN on the device.
        accepted = batch_is_finite(sample.loss - bound, sample.grad_sqnorm)
        # In place, so that a captured CUDA graph finds its memory again.
        last_step.copy_(remember_step(last_step, step, accepted))
        capped = accepted & (step == cap)
        return Decision(step, accepted, capped, sample.loss, sample.grad_sqnorm)

    def _make_state(self) -> None:
        super()._make_state()
        dtype, device = self._scalar_format()
        self._last_step(torch.zeros((), dtype=dtype, device=device))

    def _last_step(self, like: Tensor) -> Tensor:
        last_step = self._options["last_step"]
        if not isinstance(last_step, Tensor):
            last_step = torch.full_like(like, last_step)
        elif last_step.device != like.device or last_step.dtype != like.dtype:
            last_step = last_step.to(like)
        self._options["last_step"] = last_step
        return last_step
