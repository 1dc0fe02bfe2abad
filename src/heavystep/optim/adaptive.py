"""What the two adaptive rules share: kappa, the cap and the smooth reset."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from torch import Tensor
from torch.optim.optimizer import ParamsT

from heavystep import validation
from heavystep.optim.base import HeavyBall
from heavystep.optim.options import Group
from heavystep.rules import FIRST_STEP, SCALINGS, growth_factor, kappa, step_cap

Auto = Literal["auto"]
PRACTICAL_STEPS_PER_EPOCH = 500


class AdaptiveHeavyBall(HeavyBall):
    """Heavy ball whose step is chosen by a rule with a cap and a smooth reset."""

    _ranges: ClassVar[Mapping[str, validation.Interval]] = {
        **HeavyBall._ranges,
        "c": validation.POSITIVE,
        "max_step": validation.POSITIVE,
        "lower_bound": validation.FINITE,
        "steps_per_epoch": validation.AT_LEAST_ONE,
        "growth": validation.AT_LEAST_ONE,
    }
    _optional: ClassVar[frozenset[str]] = frozenset({"steps_per_epoch"})

    def __init__(self, params: ParamsT, defaults: Group, process_group: Any = None) -> None:
        if defaults["steps_per_epoch"] == "auto":
            practical = defaults["scaling"] == "practical"
            defaults["steps_per_epoch"] = PRACTICAL_STEPS_PER_EPOCH if practical else None
        defaults["last_step"] = FIRST_STEP
        super().__init__(params, defaults, process_group)

    def _check_options(self, options: Group) -> None:
        super()._check_options(options)
        validation.choice("scaling", options["scaling"], SCALINGS)

    @property
    def _options(self) -> Group:
        """The rule's constants, which all groups share, and its memory ``last_step``."""
        return self.param_groups[0]

    def _kappa(self) -> Any:
        return kappa(self._options["scaling"], self._options["momentum"])

    def _lower_bound(self, lower_bound: Any) -> Any:
        """The bound given for one step, or else the optimizer's."""
        if lower_bound is None:
            return self._options["lower_bound"]
        if isinstance(lower_bound, Tensor) and lower_bound.numel() == 1:
            return lower_bound.detach().reshape(())
        validation.real("lower_bound", lower_bound, validation.FINITE)
        return lower_bound

    def _cap(self, last_step: Any) -> Any:
        factor = growth_factor(self._options["growth"], self._options["steps_per_epoch"])
        return step_cap(last_step, factor, self._options["max_step"])
