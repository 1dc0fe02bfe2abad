"""Stochastic heavy ball with a fixed step."""

from collections.abc import Mapping
from typing import Any, ClassVar

from torch.optim.optimizer import ParamsT

from heavystep.optim.arguments import documented
from heavystep.optim.base import HeavyBall
from heavystep.optim.closures.closure import Closure
from heavystep.optim.sample import Decision, Sample
from heavystep.rules import batch_is_finite


@documented(
    "params", "lr", "momentum", "weight_decay", "decay", "foreach",
    "process_group",
    lr="the step gamma itself, >= 0; this is the number that the other optimizers choose.",
)  # fmt: skip
class SHB(HeavyBall):
    r"""Stochastic heavy ball with a step that you choose, the baseline of the paper.

    .. math:: \theta_{k+1} = \theta_k - \gamma g_k + \beta (\theta_k - \theta_{k-1})

    Without weight decay it equals ``torch.optim.SGD`` while ``lr`` is constant; when a
    scheduler changes it, past steps keep the length they were taken with, whereas SGD rescales
    them. A batch with a non-finite gradient is refused (see ``info.accepted``). ``step()``
    needs no loss.

    >>> import torch
    >>> theta = torch.tensor([3.0, -1.0], requires_grad=True)
    >>> opt = SHB([theta], lr=0.1)
    >>> for _ in range(200):
    ...     opt.zero_grad()
    ...     ((theta - torch.tensor([1.0, 2.0])) ** 2).sum().backward()
    ...     _ = opt.step()
    >>> print(theta.detach().round(decimals=2))
    tensor([1., 2.])
    """

    _uses_loss: ClassVar[bool] = False
    _symbols: ClassVar[Mapping[str, str]] = {**HeavyBall._symbols, "lr": "gamma"}

    def __init__(
        self,
        params: ParamsT,
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        *,
        decay: str = "decoupled",
        foreach: bool | None = None,
        process_group: Any = None,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "weight_decay": weight_decay,
                "decay": decay,
                "foreach": foreach,
            },
            process_group,
        )

    def _one_source(self, closure: Closure | None, loss: Any) -> None:
        if closure is not None or loss is not None:
            super()._one_source(closure, loss)

    def _decide(self, sample: Sample, lower_bound: Any) -> Decision:
        if lower_bound is not None:
            raise TypeError("SHB has a fixed step: lower_bound means nothing to it")
        loss = sample.grad_sqnorm if sample.loss is None else sample.loss
        accepted = batch_is_finite(loss, sample.grad_sqnorm)
        return Decision(1.0, accepted, False, sample.loss, sample.grad_sqnorm)
