"""Who is compared: methods of the registry, torch's optimizers and those of other packages.

A contender is named as on the command line: a method of ``heavystep methods`` or a row of
:data:`OTHERS`, perhaps with options (``SHBArmijo:c=0.5``, ``SGD:weight_decay=0.0005``), perhaps
with an ending: ``+cosine`` adds a warm-up and a cosine. Everybody is tried with nothing set, and
with six decades of one main constant.
"""

import ast
import hashlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module, metadata
from inspect import signature
from math import inf
from pathlib import Path
from typing import Any

import torch
from torch.optim import Optimizer

from heavystep import validation
from heavystep.lab.comparison.tasks import Work
from heavystep.lab.training.run import BFLOAT16_LOSSES
from heavystep.methods import METHODS, Method, check_name
from heavystep.methods.named import Options, read, written
from heavystep.optimizers import create
from heavystep.rules import REQUIRED
from heavystep.validation import Interval

COSINE = "+cosine"
DECADES = 3
"""How many there are on each side of the default."""
WITHOUT_DEFAULT, WITHOUT_LARGEST_STEP = 0.1, 1000.0
"""Where a grid is centred if the default is no number: of a learning rate that must be given, and
of a largest step that is none by default, whose grid then has six decades from 1 on."""


class Contender(ABC):
    """An optimizer that is tried with many values of its main constant."""

    name: str
    main: str
    """The name of the main constant."""
    cosine: bool
    ours: bool
    """Whether it is a method of the registry."""
    wants_loss: bool
    """Whether ``step(loss=...)`` must be given the loss."""
    captured: bool
    """Whether a step can be recorded as CUDA graphs."""
    modes: bool
    """Whether the optimizer itself has ``train()`` and ``eval()``."""
    default: float | None
    """Of the main constant; None: it is no number, and nothing is set."""

    @property
    @abstractmethod
    def centre(self) -> float:
        """The value in the middle of the grid."""

    @abstractmethod
    def allowed(self, value: float) -> bool:
        """Whether the main constant may have this value."""

    @abstractmethod
    def identity(self, value: float | None, steps: int) -> dict[str, Any]:
        """What decides its steps, versions among them, for the key of a run.

        Args:
            value: of the main constant; None: nothing is set.
            steps: how many a run has.
        """

    @abstractmethod
    def optimizer(self, work: Work, value: float | None, steps: int) -> Optimizer:
        """The optimizer of a network; see :meth:`identity`."""

    def left_out(self) -> str:
        """One line that says why it cannot be tried here, or nothing."""
        return ""

    def values(self, per_decade: int = 1) -> tuple[float, ...]:
        """Six decades around the centre; 0 a decade: none. A finer grid has a coarser one's values.

        >>> contender_of("AdamW").values()
        (1e-06, 1e-05, 0.0001, 0.001, 0.01, 0.1, 1.0)
        """
        if not per_decade:
            return ()
        powers = (place / per_decade for place in range(-3 * per_decade, 3 * per_decade + 1))
        values = (float(f"{self.centre * 10.0**power:.12g}") for power in powers)
        return tuple(value for value in values if self.allowed(value))


@dataclass(frozen=True)
class Ours(Contender):
    """A method of the registry.

    Raises:
        TypeError: it has no such option.
        ValueError: one is out of range.
    """

    method: Method
    options: Options = ()
    cosine: bool = False

    ours, wants_loss, captured, modes = True, True, True, False

    def __post_init__(self) -> None:
        self.identity(None, steps=1)

    @property
    def name(self) -> str:  # type: ignore[override]
        """Method, options and schedule."""
        return f"{self.method.name}{written(self.options)}{COSINE if self.cosine else ''}"

    @property
    def main(self) -> str:  # type: ignore[override]
        """The option that a user would tune."""
        return self.method.main

    @property
    def _usual(self) -> Any:
        """The default of the main constant, or what the options say of it."""
        given = {option.name: option.default for option in self.method.options}
        return (given | dict(self.options)).get(self.main)

    @property
    def default(self) -> float | None:  # type: ignore[override]
        """See :class:`Contender`."""
        usual = self._usual
        if usual is REQUIRED:
            return self.centre
        number = isinstance(usual, float | int) and not isinstance(usual, bool)
        return float(usual) if number and 0.0 < usual < inf else None

    @property
    def centre(self) -> float:
        """See :class:`Contender`."""
        if self._usual is REQUIRED or (self.main != "max_step" and self.default is None):
            return WITHOUT_DEFAULT
        return WITHOUT_LARGEST_STEP if self.default is None else self.default

    def allowed(self, value: float) -> bool:
        """See :class:`Contender`."""
        ranges = {option.name: option.allowed for option in self.method.options}
        found = ranges.get(self.main)
        return isinstance(found, Interval) and value in found

    def chosen(self, value: float | None, steps: int) -> dict[str, Any]:
        """The options that are set; see :meth:`identity`."""
        value = self.default if value is None and self._usual is REQUIRED else value
        varied = {} if value is None else {self.main: value}
        return {**dict(self.options), **varied}

    def identity(self, value: float | None, steps: int) -> dict[str, Any]:
        """See :class:`Contender`."""
        known = {option.name for option in self.method.options}
        chosen = self.chosen(value, steps)
        common = {name: chosen.pop(name) for name in sorted(chosen.keys() - known)}
        if common:  # options of the driver, which refuses what it does not know
            create(self.method.name, [torch.zeros(1, requires_grad=True)], **common | chosen)
        options = self.method.complete(chosen) | common
        return {"name": self.method.name, "options": options, "cosine": self.cosine,
                "version": formulas(self.method)}  # fmt: skip

    def optimizer(self, work: Work, value: float | None, steps: int) -> Optimizer:
        """See :class:`Contender`."""
        options = self.chosen(value, steps)
        if self.method.rule.searches:
            options["buffers"] = work.network.buffers
            if work.device.type == "cuda":  # there losses come from bfloat16 activations
                options |= BFLOAT16_LOSSES
        return create(self.method.name, work.parameters(), **options)

    def left_out(self) -> str:
        """Methods that want the same batch twice are left out."""
        apart = getattr(self.method, "batches", "")
        return "successive steps must share batches, and here they do not" if apart else ""


@cache
def formulas(method: Method) -> str:
    """The hash of the code of a method's rule and momentum form, without docstrings.

    Runs are made again when a formula changes, and not when its explanation does.
    """
    parts = (*vars(method.rule).values(), *vars(method.form).values())
    modules = sorted({part.__module__ for part in parts if callable(part)})
    digest = hashlib.sha256()
    for name in modules:
        file = sys.modules[name].__file__ if name.startswith("heavystep") else None
        tree = ast.parse(Path(file).read_bytes() if file else "")
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list):
                node.body = [each for each in body if not _is_text(each)]  # type: ignore[attr-defined]
        digest.update(ast.dump(tree).encode())
    return digest.hexdigest()[:12]


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


@dataclass(frozen=True)
class Other(Contender):
    """An optimizer of torch, or of another package.

    Args:
        module: where it is.
        attribute: its name there.
        lr: its default, in the middle of the grid.
        options: whatever is not as the package has it.
        package: what is to be installed; empty: it is there.
        on_gpu: options without which a step cannot be recorded there.
    """

    name: str
    module: str
    attribute: str
    lr: float
    options: Options = ()
    package: str = ""
    cosine: bool = False
    wants_loss: bool = False
    captured: bool = True
    modes: bool = False
    on_gpu: Options = ()

    main, ours = "lr", False

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
            known = list(signature(made._kind).parameters)[1:]
            for option, _ in given:
                if option not in known:
                    raise TypeError(f"{name!r}: {option!r} is no option, only {', '.join(known)}")
            try:
                made._kind([torch.zeros(1, requires_grad=True)], **made._chosen(None))
            except (TypeError, ValueError) as error:
                raise ValueError(f"{name!r}: {error}") from None
        return made

    @property
    def _kind(self) -> Any:
        return getattr(import_module(self.module), self.attribute)

    @property
    def default(self) -> float:  # type: ignore[override]
        """See :class:`Contender`."""
        return self.lr

    @property
    def centre(self) -> float:
        """See :class:`Contender`."""
        return self.lr

    def allowed(self, value: float) -> bool:
        """Any number."""
        return value > 0.0

    def _chosen(self, value: float | None) -> dict[str, Any]:
        return {**dict(self.options), "lr": self.lr if value is None else value}

    def identity(self, value: float | None, steps: int) -> dict[str, Any]:
        """See :class:`Contender`."""
        version = metadata.version(self.package) if self.package and not self.left_out() else ""
        return {"name": f"{self.module}.{self.attribute}", "options": self._chosen(value),
                "cosine": self.cosine, "version": version}  # fmt: skip

    def optimizer(self, work: Work, value: float | None, steps: int) -> Optimizer:
        """See :class:`Contender`."""
        options = self._chosen(value)
        if work.device.type == "cuda":
            options |= dict(self.on_gpu)
        made: Optimizer = self._kind(work.parameters(), **options)
        return made

    def left_out(self) -> str:
        """The package may be missing, or broken."""
        try:
            import_module(self.module)
        except ImportError:
            return f"it needs {self.package}: pip install {self.package}"
        return ""


def _others() -> Iterable[Other]:
    torchs, none = "torch.optim", (("weight_decay", 0.0),)
    alone: dict[str, Any] = {"captured": False}
    gpu = (("capturable", True),)
    nadam = (("decoupled_weight_decay", True), *none)
    # The other kernels of SGD read a scheduled learning rate on the host.
    yield Other("SGD", torchs, "SGD", 1e-3, (("momentum", 0.9),), on_gpu=(("fused", True),))
    yield Other("AdamW", torchs, "AdamW", 1e-3, none, on_gpu=gpu)
    yield Other("NadamW", torchs, "NAdam", 2e-3, nadam, on_gpu=gpu)
    yield Other("Adadelta", torchs, "Adadelta", 1.0, on_gpu=gpu)
    momo, free = "momo-opt", "schedulefree"
    yield Other("momo-opt", "momo", "Momo", 1.0, package=momo, wants_loss=True, **alone)
    yield Other("momo-opt-Adam", "momo", "MomoAdam", 1e-2, package=momo, wants_loss=True, **alone)
    yield Other("Prodigy", "prodigyopt", "Prodigy", 1.0, package="prodigyopt", **alone)
    yield Other("ScheduleFree", free, "AdamWScheduleFree", 2.5e-3, package=free, modes=True,
                **alone)  # fmt: skip


OTHERS = {other.name: other for other in _others()}
"""Defaults are those of the packages; no method has weight decay, and SGD has momentum."""
USUAL = tuple(
    name
    for name in (
        "HeavyStep", "HeavyStep:diagonal=tensor", "HeavyStep:diagonal=None",
        "SHBPolyak:scaling=practical", "SHBArmijo:scaling=practical", "SFPolyak",
        "ScheduleFreePlus", "SGD", "SGD+cosine", "AdamW", "AdamW+cosine", "NadamW+cosine",
        "Adadelta", "momo-opt", "momo-opt-Adam", "Prodigy", "ScheduleFree",
    )
    if name.partition("+")[0].partition(":")[0] in (*METHODS, *OTHERS)
)  # fmt: skip
"""Who is compared where the user has not chosen."""


def contender_of(name: str) -> Contender:
    """The contender of a name; see the top of this module.

    Raises:
        ValueError: there is no such contender, or an option is out of range.
        TypeError: the method has no such option.

    >>> contender_of("SHBArmijo:c=0.5+cosine").identity(2.0, steps=100)["options"]["max_step"]
    2.0
    """
    cosine = name.endswith(COSINE)
    head, options = read(name.removesuffix(COSINE))
    if "+" in head:
        raise ValueError(f"{name!r}: the only ending is {COSINE!r}")
    check_name(head, beside=OTHERS)
    if head not in OTHERS:
        return Ours(METHODS[head], options, cosine=cosine)
    return OTHERS[head].with_options(options, cosine=cosine)
