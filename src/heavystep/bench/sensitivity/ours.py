"""Methods of the registry as contenders."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torch.optim import Optimizer

from heavystep.bench.sensitivity.contract import COSINE, HORIZON, Contender
from heavystep.bench.tasks import Work
from heavystep.compare.grid import centre_of, grid_of, main_option, needed
from heavystep.methods import Method
from heavystep.methods.named import Options, tuned, written
from heavystep.optim import create
from heavystep.optim.groups import EVERY_OPTIMIZER, EVERY_SEARCH
from heavystep.rules import NEW_BATCHES
from heavystep.training.setup import BFLOAT16_LOSSES

LENGTH = "total_steps"
"""The option that a horizon sets."""
COMMON = {option.name: option for option in (*EVERY_OPTIMIZER, *EVERY_SEARCH)}


@dataclass(frozen=True)
class Registered(Contender):
    """A method of the registry.

    Raises:
        TypeError: it has no such option.
        ValueError: one is out of range, or there is no length that it could be told.
    """

    method: Method
    options: Options = ()
    cosine: bool = False
    horizon: bool = False
    ours: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        for name, value in self.options:
            if name in COMMON:
                COMMON[name].check(value)
        left = {option.name for option in self.tuned.options} - dict(self.options).keys()
        if self.horizon and LENGTH not in left:
            raise ValueError(
                f"{self.name!r}: {HORIZON!r} is for methods whose {LENGTH} is not set yet, such as "
                "SHBPolyak and SHBAdam"
            )
        self.identity(None, steps=1)

    @property
    def name(self) -> str:  # type: ignore[override]
        """Method, options and schedule."""
        endings = (COSINE if self.cosine else "") + (HORIZON if self.horizon else "")
        return f"{self.method.name}{written(self.options)}{endings}"

    @cached_property
    def tuned(self) -> Method:
        """The method with the rule that the options ask for, and with them as its defaults."""
        return tuned(self.method, dict(self.options))

    @property
    def main(self) -> str:  # type: ignore[override]
        """The option that a user would tune."""
        return self.tuned.main

    @property
    def clipped(self) -> bool:  # type: ignore[override]
        """See :class:`Contender`."""
        largest = main_option(self.tuned)
        unset = largest.name == "max_step" and largest.default is None
        return unset and self.tuned.rule.clips_last

    @property
    def centre(self) -> float:
        """See :class:`Contender`."""
        return centre_of(self.tuned)

    def values(self, per_decade: int) -> tuple[float, ...]:
        """See :class:`Contender`."""
        return grid_of(self.tuned, per_decade)

    def _chosen(self, value: float | None, steps: int) -> dict[str, Any]:
        """The options that differ from the defaults; an option without a default has the centre."""
        told = {LENGTH: steps} if self.horizon else {}
        varied = needed(self.tuned) if value is None else {self.main: value}
        return {**dict(self.options), **told, **varied}

    def identity(self, value: float | None, steps: int) -> dict[str, Any]:
        """See :class:`Contender`."""
        chosen = self._chosen(value, steps)
        common = {name: chosen.pop(name) for name in COMMON if name in chosen}
        options = self.method.complete(chosen) | {
            name: each for name, each in common.items() if each != COMMON[name].default
        }
        return {"name": self.method.name, "options": options, "cosine": self.cosine}

    def versions(self) -> dict[str, Any]:
        """Those of rule, momentum form and diagonal."""
        return dict(self.tuned.versions())

    def optimizer(self, work: Work, value: float | None, steps: int) -> Optimizer:
        """See :class:`Contender`."""
        options = self._chosen(value, steps)
        if self.tuned.rule.searches:
            options["buffers"] = work.network.buffers
            if work.device.type == "cuda":  # there losses come from bfloat16 activations
                options |= BFLOAT16_LOSSES
        return create(self.method.name, work.parameters(), **options)

    def left_out(self) -> str:
        """Methods that want the same batch twice are left out."""
        if self.tuned.rule.batches != NEW_BATCHES:
            return "successive steps must share batches, and here they do not"
        return ""
