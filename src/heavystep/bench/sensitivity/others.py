"""Optimizers of torch and of other packages as contenders."""

from dataclasses import dataclass, field, replace
from importlib import import_module, metadata
from inspect import signature
from typing import Any

import torch
from torch.optim import Optimizer

from heavystep import validation
from heavystep.bench.sensitivity.contract import COSINE, Contender
from heavystep.bench.tasks import Work
from heavystep.compare.grid import around
from heavystep.extras import install
from heavystep.methods.named import Options, written


@dataclass(frozen=True)
class Other(Contender):
    """An optimizer of torch, or of another package."""

    name: str
    module: str
    attribute: str
    lr: float
    """Its default, in the middle of the grid."""
    options: Options = ()
    """Whatever is not as the package has it."""
    package: str = ""
    """What is to be installed; empty: it is there."""
    cosine: bool = False
    wants_loss: bool = False
    captured: bool = True
    modes: bool = False
    on_gpu: Options = ()
    """Options without which a step cannot be recorded there."""
    main: str = field(default="lr", init=False)

    def with_options(self, given: Options, *, cosine: bool) -> "Other":
        """The same with these options, the learning rate perhaps among them, or with a schedule.

        Raises:
            TypeError: it has no such option.
            ValueError: one is out of range.
        """
        options = {**dict(self.options), **dict(given)}
        lr = options.pop("lr", self.lr)
        validation.real("lr", lr, validation.POSITIVE, {})
        name = f"{self.name}{written(given)}{COSINE if cosine else ''}"
        made = replace(self, name=name, lr=lr, options=tuple(options.items()), cosine=cosine)
        if given and not made.left_out():
            made._check(dict(given))
        return made

    def _check(self, given: dict[str, Any]) -> None:
        """Refuse what the optimizer itself would refuse in every run."""
        known = list(signature(self._kind).parameters)[1:]
        for name in given:
            if name not in known:
                raise TypeError(f"{self.name!r}: {name!r} is no option, only {', '.join(known)}")
        try:
            self._kind([torch.zeros(1, requires_grad=True)], **self._chosen(None))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self.name!r}: {error}") from None

    @property
    def _kind(self) -> Any:
        return getattr(import_module(self.module), self.attribute)

    @property
    def centre(self) -> float:
        """See :class:`Contender`."""
        return self.lr

    def values(self, per_decade: int) -> tuple[float, ...]:
        """See :class:`Contender`."""
        return around(self.lr, per_decade)

    def _chosen(self, value: float | None) -> dict[str, Any]:
        return {**dict(self.options), "lr": self.lr if value is None else value}

    def identity(self, value: float | None, steps: int) -> dict[str, Any]:
        """See :class:`Contender`."""
        return {"name": f"{self.module}.{self.attribute}", "options": self._chosen(value),
                "cosine": self.cosine}  # fmt: skip

    def versions(self) -> dict[str, Any]:
        """That of the package."""
        return {self.package: metadata.version(self.package)} if self.package else {}

    def optimizer(self, work: Work, value: float | None, steps: int) -> Optimizer:
        """See :class:`Contender`."""
        options = self._chosen(value)
        if work.device.type == "cuda":
            options |= dict(self.on_gpu)
        made: Optimizer = self._kind(work.parameters(), **options)
        return made

    def left_out(self) -> str:
        """The package may be missing, or broken."""
        if not self.package:
            return ""
        try:
            import_module(self.module)
        except ImportError:
            return f"it needs {self.package}: {install('bench')}"
        return ""


_SGD = (("momentum", 0.9),)
_ADAMW = (("weight_decay", 0.0),)
_CAPTURED = (("capturable", True),)
_FUSED = (("fused", True),)  # the other kernels of SGD read a scheduled lr on the host
OTHERS = {
    other.name: other
    for other in (
        Other("SGD", "torch.optim", "SGD", 1e-3, _SGD, on_gpu=_FUSED),
        Other("AdamW", "torch.optim", "AdamW", 1e-3, _ADAMW, on_gpu=_CAPTURED),
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
