"""The momentum-free methods that the paper compares with."""

from typing import Any

from torch.optim.optimizer import ParamsT

from heavystep.optim.adaptive import Auto
from heavystep.optim.arguments import documented
from heavystep.optim.armijo import Buffers, SHBArmijo
from heavystep.optim.polyak import SHBPolyak

_RESET = (
    "n_b of the smooth reset, >= 1; None turns it off, and so does the default. The "
    "paper's experiments use it: pass the number of batches in an epoch."
)


@documented(
    "params", "lr", "c", "max_step", "lower_bound", "steps_per_epoch", "growth", "weight_decay",
    "decay", "foreach",
    "process_group",
    c="divisor c of the Polyak ratio, > 0.",
    steps_per_epoch=_RESET,
)  # fmt: skip
class SPS(SHBPolyak):
    r"""Stochastic Polyak step size (Loizou et al. 2021): :class:`SHBPolyak` without momentum.

    .. math:: \gamma_k = \eta_k \min\{(f_k - \ell_k) / (c \|g_k\|^2),\ \mathrm{cap}_k\}

    c and max_step are those of the baseline in Appendix E.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1.0,
        *,
        c: float = 0.1,
        max_step: float = 1.0,
        lower_bound: float = 0.0,
        steps_per_epoch: float | Auto | None = "auto",
        growth: float = 4.0,
        weight_decay: float = 0.0,
        decay: str = "decoupled",
        foreach: bool | None = None,
        process_group: Any = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            momentum=0.0,
            c=c,
            max_step=max_step,
            lower_bound=lower_bound,
            scaling="plain",
            steps_per_epoch=steps_per_epoch,
            growth=growth,
            weight_decay=weight_decay,
            decay=decay,
            foreach=foreach,
            process_group=process_group,
        )


@documented(
    "params", "lr", "c", "max_step", "decrease_factor", "lower_bound", "steps_per_epoch",
    "growth", "max_trials", "weight_decay", "decay", "buffers", "loss_eps", "foreach",
    "process_group",
    c="sufficient decrease constant c, in (0, 1).",
    lower_bound="a lower bound l of the sampled loss, or None; see :class:`SHBArmijo`.",
    steps_per_epoch=_RESET,
)  # fmt: skip
class SLS(SHBArmijo):
    r"""Stochastic line search (Vaswani et al. 2019): :class:`SHBArmijo` without momentum.

    .. math:: \gamma_k = \eta_k t_k, \qquad t_k \text{ the largest } t \in
              \{\mathrm{cap}_k \omega^j\} \text{ with }
              f(\theta_k - t g_k; x_k) \le f(\theta_k; x_k) - c\,t\,\|g_k\|^2

    c and max_step are those of the baseline in Appendix E.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1.0,
        *,
        c: float = 0.1,
        max_step: float = 1.0,
        decrease_factor: float = 0.9,
        lower_bound: float | None = None,
        steps_per_epoch: float | Auto | None = "auto",
        growth: float = 2.0,
        max_trials: int = 100,
        weight_decay: float = 0.0,
        decay: str = "decoupled",
        buffers: Buffers | None = None,
        loss_eps: float | None = None,
        foreach: bool | None = None,
        process_group: Any = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            momentum=0.0,
            c=c,
            max_step=max_step,
            decrease_factor=decrease_factor,
            lower_bound=lower_bound,
            scaling="plain",
            steps_per_epoch=steps_per_epoch,
            growth=growth,
            max_trials=max_trials,
            weight_decay=weight_decay,
            decay=decay,
            buffers=buffers,
            loss_eps=loss_eps,
            foreach=foreach,
            process_group=process_group,
        )
