"""What the last step did."""

from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class StepInfo:
    """Outcome of one optimizer step, as ``opt.info``.

    Fields are 0-dim tensors on the parameters' device where the step was chosen there
    (:class:`SHB`, :class:`SHBPolyak`), so that reading one is what synchronises, and plain
    numbers for :class:`SHBArmijo`. ``float(info.step)`` works on both.
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
    """Whether the step is the largest that ``max_step`` and the smooth reset allowed."""

    def numbers(self) -> dict[str, float | int | bool | None]:
        """All fields as Python numbers, for a logger; waits for the device."""
        return {
            name: value.item() if isinstance(value, Tensor) else value
            for name, value in asdict(self).items()
        }
