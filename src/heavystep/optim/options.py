"""Parameter groups whose options are in range and agree."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from torch import Tensor
from torch.optim import Optimizer

from heavystep import validation

Group = dict[str, Any]
DECAYS = ("decoupled", "objective")


class CheckedGroups(Optimizer):
    """A torch optimizer that refuses options out of range and groups that disagree."""

    _ranges: ClassVar[Mapping[str, validation.Interval]] = {
        "lr": validation.NON_NEGATIVE,
        "momentum": validation.UNIT,
        "weight_decay": validation.NON_NEGATIVE,
    }
    """The allowed range of each numeric option."""

    _symbols: ClassVar[Mapping[str, str]] = validation.SYMBOLS
    """The paper's symbol for each option that is not named after it."""

    _optional: ClassVar[frozenset[str]] = frozenset()
    """Numeric options that may be None."""

    _may_differ: ClassVar[frozenset[str]] = frozenset({"lr", "weight_decay", "last_step"})
    """Options that parameter groups need not share."""

    def add_param_group(self, param_group: Group) -> None:
        """Add a parameter group; a refused one leaves the optimizer as it was."""
        if isinstance(param_group, dict):
            param_group = plain_numbers(param_group)
        super().add_param_group(param_group)
        try:
            self._check_options(self.param_groups[-1])
            self._check_params(self.param_groups[-1]["params"])
            self._check_groups()
        except (TypeError, ValueError):
            self.param_groups.pop()
            raise

    def _check_options(self, options: Group) -> None:
        for name, interval in self._ranges.items():
            if options[name] is not None or name not in self._optional:
                validation.real(name, options[name], interval, self._symbols)
        validation.choice("decay", options["decay"], DECAYS)
        validation.choice("foreach", options["foreach"], (None, True, False))

    def _check_groups(self) -> None:
        """Options are in range, whatever a scheduler did to them, and groups agree."""
        first = self.param_groups[0]
        for group in self.param_groups:
            # A learning rate on the device must not be read at every step.
            on_device = isinstance(group["lr"], Tensor)
            self._check_options({**group, "lr": 1.0} if on_device else group)
            if group is first:
                continue
            for name in self.defaults.keys() - self._may_differ:
                if group[name] != first[name]:
                    validation.disagree(name, (g[name] for g in self.param_groups))

    def _check_params(self, params: list[Tensor]) -> None:
        for param in params:
            if not param.is_floating_point():
                kind = "complex" if param.is_complex() else str(param.dtype)
                raise TypeError(
                    f"{type(self).__name__} needs real floating-point parameters, got {kind}: "
                    "optimize torch.view_as_real(parameter) instead of a complex one"
                )
            device = self._all_params[0].device
            if param.device != device:
                raise ValueError(
                    f"all parameters must be on one device, got {device} and {param.device}: "
                    "one step size is chosen from the loss and the gradient of all of them"
                )

    @property
    def _all_params(self) -> list[Tensor]:
        return [param for group in self.param_groups for param in group["params"]]


def plain_numbers(options: Group) -> Group:
    """Options with numpy's numbers made Python's, which a checkpoint can hold safely."""
    return {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in options.items()
    }
