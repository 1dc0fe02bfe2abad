"""The diminishing variants of Section 4, as a torch LR scheduler."""

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from heavystep import validation
from heavystep.schedules import PowerLaw, Schedules, check_diminishing


class Diminishing(LRScheduler):
    r"""Drive ``lr``, ``momentum`` and ``max_step`` towards zero by power laws.

    .. math:: \eta_k = \eta_0 (1 + k/h)^{-p_\eta}, \quad
              \beta_k = \beta_0 (1 + k/h)^{-p_\beta}, \quad
              \gamma_{\max,k} = \gamma_{\max,0} (1 + k/h)^{-p_\gamma}

    With ``scaling="plain"`` and no smooth reset this is SHB-PS_dec and SHB-ALS_dec of
    Section 4, which converge to the exact optimum where the standard rules stop at a
    neighbourhood. (Other scalings are driven alike, outside the theorems.) Call ``step()``
    after every ``optimizer.step``. The optimizer's own ``lr`` and ``max_step`` at construction
    are the multiplier of eta_0 and gamma_max,0.

    Args:
        optimizer: an optimizer with a ``max_step``: :class:`SHBPolyak`, :class:`SHBArmijo`.
        eta0: eta_0, > 0.
        eta_power: exponent of eta_k.
        beta0: beta_0, in [0, 1); by default the optimizer's momentum.
        beta_power: exponent of beta_k, > 1 unless beta_0 = 0.
        max_step_power: exponent of gamma_max,k, > 0.
        horizon: h, > 0.
        last_epoch: the step to go on from, as in every torch scheduler.

    Raises:
        ValueError: for exponents outside the paper's assumption, naming the item that fails.

    >>> import torch
    >>> from heavystep import SHBPolyak
    >>> theta = torch.zeros(2, requires_grad=True)
    >>> opt = SHBPolyak([theta], scaling="plain", max_step=0.02)
    >>> schedule = Diminishing(opt, horizon=1.0)
    >>> loss = opt.step(lambda: ((theta - 3.0) ** 2).sum())
    >>> schedule.step()
    >>> group = opt.param_groups[0]
    >>> [round(group[name], 4) for name in ("lr", "momentum", "max_step")]
    [0.3789, 0.4199, 0.0162]

    Reference: Zhang, Shi and Gu, Section 4; default exponents of Section 5.
    """

    def __init__(
        self, optimizer: Optimizer, *, eta0: float = 0.5, eta_power: float = 0.4,
        beta0: float | None = None, beta_power: float = 1.1, max_step_power: float = 0.3,
        horizon: float = 1e4, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if not isinstance(optimizer, Optimizer) or "max_step" not in optimizer.defaults:
            raise TypeError(
                f"optimizer must have a max_step (gamma_max) to diminish, got "
                f"{type(optimizer).__name__}: use SHBPolyak, SHBArmijo, SPS or SLS, say"
            )
        first = optimizer.param_groups[0]
        # A loaded optimizer state holds what it began with.
        beta0 = first.get("initial_momentum", first["momentum"]) if beta0 is None else beta0
        for name, value in {"eta0": eta0, "horizon": horizon}.items():
            validation.real(name, value, validation.POSITIVE)
        validation.real("beta0", beta0, validation.UNIT)
        powers = {
            "eta_power": eta_power,
            "beta_power": beta_power,
            "max_step_power": max_step_power,
        }
        for name, value in powers.items():
            validation.real(name, value, validation.FINITE)
        max_step = first.get("initial_max_step", first["max_step"])
        if max_step is None:
            raise ValueError(
                "max_step (gamma_max) must be a number to diminish, got None: give "
                f"{type(optimizer).__name__} a max_step"
            )
        laws = {
            "lr": PowerLaw(eta0, eta_power, horizon),
            "momentum": PowerLaw(beta0, beta_power, horizon),
            "max_step": PowerLaw(max_step, max_step_power, horizon),
        }
        check_diminishing(*laws.values())
        # As plain tuples, which a checkpoint can hold safely.
        self.laws = {name: tuple(law) for name, law in laws.items()}
        for group in optimizer.param_groups:
            group["initial_momentum"], group["initial_max_step"] = beta0, max_step
        super().__init__(optimizer, last_epoch)

    @property
    def schedules(self) -> Schedules:
        """The three power laws, for :func:`heavystep.certify` and :mod:`heavystep.theory`."""
        return Schedules(*(PowerLaw(*law) for law in self.laws.values()))

    def get_lr(self) -> list[float]:  # type: ignore[override]
        """The multipliers of this step; momentum and max_step are set on the way."""
        value = {name: PowerLaw(*law)(self.last_epoch) for name, law in self.laws.items()}
        for group in self.optimizer.param_groups:
            group["momentum"], group["max_step"] = value["momentum"], value["max_step"]
        return [float(base_lr) * value["lr"] for base_lr in self.base_lrs]
