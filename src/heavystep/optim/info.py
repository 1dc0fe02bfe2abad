"""The report of a step."""

from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

ROUNDING = 1e-5
"""A step may be a product of kappa and max_step / kappa, in the format of the device."""


@dataclass(frozen=True)
class StepInfo:
    """Outcome of one optimizer step, as ``opt.info``.

    Fields are plain numbers where the host chose the step, that is on CPUs and in line searches,
    and 0-dim tensors on the parameters' device otherwise, so that reading one is what synchronises.
    ``float(info.step)`` works on both.
    """

    step: Any
    """Step gamma_k taken by the first parameter group; 0 if the batch was refused."""
    base_step: Any
    """The step before the group's multiplier ``lr``: gamma_k / eta_k, alike for all groups."""
    loss: Any
    """The loss that the rule saw, at the parameters before the step. None if none was given."""
    grad_sqnorm: Any
    """Squared norm of the gradient that the rule saw, over all parameter groups; g' D^-1 g for a
    method with a diagonal D."""
    trials: int
    """Loss evaluations spent in the line search, besides the first one."""
    accepted: Any
    """False if the batch was refused: parameters and state are then as before the step."""
    capped: Any
    """True if the step is the largest that the caps of the rule allowed; :attr:`cap` says which.
    Of HeavyStep only ``max_step`` counts as a cap, and the limit of trust does not."""
    lower_bound: Any = None
    """The lower bound of the loss that the rule saw; None: it saw none."""
    max_step: Any = None
    """The largest step before ``lr`` that ``max_step`` allows; None: there is none."""

    @property
    def cap(self) -> str | None:
        """Which cap held the step; waits for the device.

        ``"max_step"``: the step is ``max_step``. ``"growth"``: it is less than that, and as long as
        the steps before it allow: the smooth reset, or the cap of a method whose steps only fall.
        None: it was not capped.
        """
        if not self.capped:
            return None
        largest = self.max_step is not None and self.base_step >= (1.0 - ROUNDING) * self.max_step
        return "max_step" if largest else "growth"

    def numbers(self) -> dict[str, float | int | bool | str | None]:
        """All fields as Python numbers, and :attr:`cap`, for a logger; waits for the device."""
        fields = {
            name: value.item() if isinstance(value, Tensor) else value
            for name, value in asdict(self).items()
        }
        return {**fields, "cap": self.cap}
