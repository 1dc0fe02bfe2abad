"""Who is compared: methods of the registry, torch's optimizers and those of other packages.

A contender is named as on the command line: a method of ``heavystep methods``, perhaps with
options (``SHBArmijo:c=0.5``), or a row of :data:`OTHERS`; ``+cosine`` adds a schedule.
"""

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from importlib import import_module, metadata
from typing import Any

from torch.optim import Optimizer

from heavystep.bench.tasks import Work
from heavystep.compare.grid import around, centre_of, grid_of, main_option
from heavystep.methods import METHODS, Method, check_name
from heavystep.optim import create
from heavystep.rules import NEW_BATCHES, REQUIRED
from heavystep.training.setup import LOSS_EPS

COSINE = "+cosine"
"""The ending of the name with a linear warm-up and a cosine."""


class Contender(ABC):
    """An optimizer that is tried with many values of its main constant."""

    name: str
    main: str
    """The name of the main constant."""
    cosine: bool = False
    """Whether its learning rate has a schedule."""
    ours: bool = False
    """Whether it is a method of the registry."""
    wants_loss: bool = False
    """Whether ``step(loss=...)`` must be given the loss."""
    captured: bool = True
    """Whether a step can be recorded as CUDA graphs."""
    modes: bool = False
    """Whether the optimizer itself has ``train()`` and ``eval()``."""

    @property
    @abstractmethod
    def centre(self) -> float:
        """The value in the middle of the grid: the default, where that is a number."""

    @abstractmethod
    def values(self, per_decade: int) -> tuple[float, ...]:
        """Six decades of the main constant."""

    @abstractmethod
    def identity(self, value: float | None) -> dict[str, Any]:
        """What decides its steps, for the key of a run; None: the untouched default."""

    @abstractmethod
    def versions(self) -> dict[str, Any]:
        """Versions of what it is made of, for the key of a run."""

    @abstractmethod
    def optimizer(self, work: Work, value: float | None) -> Optimizer:
        """The optimizer of a network; None: the untouched default."""

    def left_out(self) -> str:
        """One line that says why it cannot be tried here, or nothing."""
        return ""


@dataclass(frozen=True)
class Registered(Contender):
    """A method of the registry."""

    method: Method
    options: tuple[tuple[str, Any], ...] = ()
    cosine: bool = False
    ours: bool = field(default=True, init=False)

    @property
    def name(self) -> str:  # type: ignore[override]
        """Method, options and schedule."""
        chosen = "".join(f":{name}={value:g}" for name, value in self.options)
        return f"{self.method.name}{chosen}{COSINE if self.cosine else ''}"

    @property
    def main(self) -> str:  # type: ignore[override]
        """The option that a user would tune."""
        return self.method.main

    @property
    def centre(self) -> float:
        """See :class:`Contender`."""
        return centre_of(self.method)

    def values(self, per_decade: int) -> tuple[float, ...]:
        """See :class:`Contender`."""
        return grid_of(self.method, per_decade)

    def _chosen(self, value: float | None) -> dict[str, Any]:
        """The options that differ from the defaults; an option without a default has the centre."""
        if value is None and main_option(self.method).default is REQUIRED:
            value = self.centre
        return {**dict(self.options), **({} if value is None else {self.main: value})}

    def identity(self, value: float | None) -> dict[str, Any]:
        """See :class:`Contender`."""
        complete = self.method.complete(self._chosen(value))
        return {"name": self.method.name, "options": complete, "cosine": self.cosine}

    def versions(self) -> dict[str, Any]:
        """Those of rule, momentum form and diagonal."""
        return dict(self.method.versions())

    def optimizer(self, work: Work, value: float | None) -> Optimizer:
        """See :class:`Contender`."""
        options = self._chosen(value)
        if self.method.rule.searches:
            options["buffers"] = work.network.buffers
            if work.device.type == "cuda":  # there losses come from bfloat16 activations
                options["loss_eps"] = LOSS_EPS
        return create(self.method.name, work.parameters(), **options)

    def left_out(self) -> str:
        """Methods that want the same batch twice are left out."""
        if self.method.rule.batches != NEW_BATCHES:
            return "successive steps must share batches, and here they do not"
        return ""


@dataclass(frozen=True)
class Other(Contender):
    """An optimizer of torch, or of another package."""

    name: str
    module: str
    attribute: str
    lr: float
    """Its default, in the middle of the grid."""
    options: tuple[tuple[str, Any], ...] = ()
    """Whatever is not as the package has it."""
    package: str = ""
    """What is to be installed; empty: it is there."""
    cosine: bool = False
    wants_loss: bool = False
    captured: bool = True
    modes: bool = False
    on_gpu: tuple[tuple[str, Any], ...] = ()
    """Options without which a step cannot be recorded there."""
    main: str = field(default="lr", init=False)

    @property
    def centre(self) -> float:
        """See :class:`Contender`."""
        return self.lr

    def values(self, per_decade: int) -> tuple[float, ...]:
        """See :class:`Contender`."""
        return around(self.lr, per_decade)

    def identity(self, value: float | None) -> dict[str, Any]:
        """See :class:`Contender`."""
        options = {**dict(self.options), "lr": self.lr if value is None else value}
        return {"name": f"{self.module}.{self.attribute}", "options": options,
                "cosine": self.cosine}  # fmt: skip

    def versions(self) -> dict[str, Any]:
        """That of the package."""
        return {self.package: metadata.version(self.package)} if self.package else {}

    def optimizer(self, work: Work, value: float | None) -> Optimizer:
        """See :class:`Contender`."""
        kind: Any = getattr(import_module(self.module), self.attribute)
        options = {**dict(self.options), "lr": self.lr if value is None else value}
        if work.device.type == "cuda":
            options |= dict(self.on_gpu)
        made: Optimizer = kind(work.parameters(), **options)
        return made

    def left_out(self) -> str:
        """The package may be missing, or broken."""
        if not self.package:
            return ""
        try:
            import_module(self.module)
        except ImportError:
            return f"it needs {self.package}: pip install 'heavystep[bench]'"
        return ""


_SGD = (("momentum", 0.9),)
_ADAMW = (("weight_decay", 0.0),)
_CAPTURED = (("capturable", True),)
OTHERS = {
    other.name: other
    for other in (
        Other("SGD", "torch.optim", "SGD", 1e-3, _SGD),
        Other("SGD" + COSINE, "torch.optim", "SGD", 1e-3, _SGD, cosine=True),
        Other("AdamW", "torch.optim", "AdamW", 1e-3, _ADAMW, on_gpu=_CAPTURED),
        Other("AdamW" + COSINE, "torch.optim", "AdamW", 1e-3, _ADAMW, cosine=True,
              on_gpu=_CAPTURED),
        Other("momo-opt", "momo", "Momo", 1.0, package="momo-opt", wants_loss=True, captured=False),
        Other("momo-opt-Adam", "momo", "MomoAdam", 1e-2, package="momo-opt", wants_loss=True,
              captured=False),
        Other("Prodigy", "prodigyopt", "Prodigy", 1.0, package="prodigyopt", captured=False),
        Other("ScheduleFree", "schedulefree", "AdamWScheduleFree", 2.5e-3, package="schedulefree",
              captured=False, modes=True),
    )
}  # fmt: skip
"""Defaults are those of the packages; no method has weight decay, and SGD has momentum."""
REFERENCE = "AdamW"
"""Scores are also given as parts of this one's."""
USUAL = ("SHBPolyak", "SHBAdam", "SHBArmijo", *OTHERS)
"""Who is compared where the user has not chosen."""


def contender_of(name: str) -> Contender:
    """The contender of a name.

    Args:
        name: see the top of this module.

    Raises:
        ValueError: there is no such contender.
        TypeError: the method has no such option.

    >>> contender_of("SHBArmijo:c=0.5+cosine").identity(2.0)["options"]["max_step"]
    2.0
    """
    if name in OTHERS:
        return OTHERS[name]
    plain, _, _ = name.partition("+")
    if name not in (plain, plain + COSINE):
        raise ValueError(f"{name!r}: the only ending is {COSINE!r}")
    method, *given = plain.split(":")
    check_name(method, beside=OTHERS)
    options = tuple(_option(name, text) for text in given)
    found = Registered(METHODS[method], options, cosine=name.endswith(COSINE))
    found.identity(None)  # refuses options that it does not have, or out of range
    return found


def _option(name: str, text: str) -> tuple[str, Any]:
    option, _, value = text.partition("=")
    try:
        return option, json.loads(value)
    except ValueError:
        raise ValueError(f"{name!r}: {option!r} must be followed by = and a number") from None
