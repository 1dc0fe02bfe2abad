"""Who is compared: methods of the registry, torch's optimizers and those of other packages.

A contender is named as on the command line: a method of ``heavystep methods`` or a row of
:data:`OTHERS`, perhaps with options (``SHBArmijo:c=0.5``, ``SGD:weight_decay=0.0005``), perhaps
with an ending: ``+cosine`` adds a warm-up and a cosine. Everybody is tried with nothing set, and
with six decades of one main constant, if its default is a number.
"""

import ast
import hashlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module, metadata
from inspect import signature
from math import inf
from pathlib import Path
from typing import Any

import torch
from torch.optim import Optimizer

from heavystep import validation
from heavystep.lab.training.trainer import Work, search_options
from heavystep.methods import METHODS, Method, check_name
from heavystep.optimizers import create
from heavystep.rules import REQUIRED

Options = tuple[tuple[str, Any], ...]
"""Options by name, as they were given."""
COSINE = "+cosine"
WITHOUT_DEFAULT = 0.1
"""Where the grid of a learning rate that must be given is centred."""


@dataclass(frozen=True)
class Contender(ABC):
    """An optimizer that is tried with many values of its main constant.

    Args:
        name: with options and schedule.
        main: the name of the main constant.
        default: the value with nothing set, in the middle of its grid; None: it is no number, and
            there is no grid.
        wants_loss: whether ``step(loss=...)`` must be given the loss.
        captured: whether a step can be recorded as CUDA graphs.
        modes: whether the optimizer itself has ``train()`` and ``eval()``.
    """

    name: str
    main: str
    default: float | None
    options: Options = ()
    cosine: bool = False
    wants_loss: bool = False
    captured: bool = True
    modes: bool = False
    ours = False

    def allowed(self, value: float) -> bool:
        """Whether the main constant may have this value."""
        return value > 0.0

    def chosen(self, value: float | None) -> dict[str, Any]:
        """The options that are set, with this value of the main constant; None: nothing is set."""
        return dict(self.options) | ({} if value is None else {self.main: value})

    @abstractmethod
    def identity(self, value: float | None) -> dict[str, Any]:
        """What decides its steps, versions among them, for the key of a run."""

    @abstractmethod
    def optimizer(self, work: Work, value: float | None) -> Optimizer:
        """The optimizer of a network."""

    def left_out(self) -> str:
        """One line that says why it cannot be tried here, or nothing."""
        return ""

    def values(self, per_decade: int = 1) -> tuple[float, ...]:
        """Six decades around the default; 0 a decade: none. Finer grids have coarser ones' values.

        >>> contender_of("AdamW").values()
        (1e-06, 1e-05, 0.0001, 0.001, 0.01, 0.1, 1.0)
        """
        if not per_decade or self.default is None:
            return ()
        powers = (place / per_decade for place in range(-3 * per_decade, 3 * per_decade + 1))
        values = (float(f"{self.default * 10.0**power:.12g}") for power in powers)
        return tuple(value for value in values if self.allowed(value))


@dataclass(frozen=True)
class Ours(Contender):
    """A method of the registry."""

    method: Method = field(kw_only=True)
    ours = True

    @staticmethod
    def of(method: Method, options: Options, *, cosine: bool) -> "Ours":
        """The contender; it is refused here if it has no such option, or one is out of range."""
        defaults = {option.name: option.default for option in method.options}
        usual: Any = (defaults | dict(options)).get(method.main)
        number = isinstance(usual, float | int) and not isinstance(usual, bool)
        default = float(usual) if number and 0.0 < usual < inf else None
        name = f"{method.name}{written(options)}{COSINE if cosine else ''}"
        if usual is REQUIRED:
            default = WITHOUT_DEFAULT
            options = (*options, (method.main, default))
        made = Ours(name, method.main, default, options, cosine, True, method=method)
        made.identity(None)
        return made

    def allowed(self, value: float) -> bool:
        found = next((o.allowed for o in self.method.options if o.name == self.main), None)
        return isinstance(found, validation.Interval) and value in found

    def identity(self, value: float | None) -> dict[str, Any]:
        known = {option.name for option in self.method.options}
        chosen = self.chosen(value)
        common = {name: chosen.pop(name) for name in sorted(chosen.keys() - known)}
        if common:  # options of the driver, which refuses what it does not know
            create(self.method.name, [torch.zeros(1, requires_grad=True)], **common | chosen)
        options = self.method.complete(chosen) | common
        return {"name": self.method.name, "options": options, "cosine": self.cosine,
                "version": formulas(self.method)}  # fmt: skip

    def optimizer(self, work: Work, value: float | None) -> Optimizer:
        options = self.chosen(value) | search_options(self.method, work)
        return create(self.method.name, work.parameters(), **options)


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
        place: module and class.
        package: what is to be installed; empty: it is there.
        on_gpu: options without which a step cannot be recorded there.
    """

    place: tuple[str, str] = field(kw_only=True)
    package: str = field(kw_only=True)
    on_gpu: Options = field(kw_only=True)

    def with_options(self, given: Options, *, cosine: bool) -> "Other":
        """The same with these options, the learning rate perhaps among them, or with a schedule.

        Raises:
            TypeError: it has no such option.
            ValueError: one is out of range.
        """
        options = {**dict(self.options), **dict(given)}
        lr = options.pop("lr", self.default)
        validation.real("lr", lr, validation.POSITIVE, {})
        name = f"{self.name}{written(given)}{COSINE if cosine else ''}"
        made = replace(self, name=name, default=lr, options=tuple(options.items()), cosine=cosine)
        if given and not made.left_out():
            known = list(signature(made._kind).parameters)[1:]
            for option, _ in given:
                if option not in known:
                    raise TypeError(f"{name!r}: {option!r} is no option, only {', '.join(known)}")
            try:
                made._kind([torch.zeros(1, requires_grad=True)], **made.chosen(None))
            except (TypeError, ValueError) as error:
                raise ValueError(f"{name!r}: {error}") from None
        return made

    @property
    def _kind(self) -> Any:
        return getattr(import_module(self.place[0]), self.place[1])

    def chosen(self, value: float | None) -> dict[str, Any]:
        return super().chosen(self.default if value is None else value)

    def identity(self, value: float | None) -> dict[str, Any]:
        version = metadata.version(self.package) if self.package and not self.left_out() else ""
        return {"name": ".".join(self.place), "options": self.chosen(value),
                "cosine": self.cosine, "version": version}  # fmt: skip

    def optimizer(self, work: Work, value: float | None) -> Optimizer:
        options = self.chosen(value)
        if work.device.type == "cuda":
            options |= dict(self.on_gpu)
        made: Optimizer = self._kind(work.parameters(), **options)
        return made

    def left_out(self) -> str:
        try:
            import_module(self.place[0])
        except ImportError:  # it is missing, or broken
            return f"it needs {self.package}: pip install {self.package}"
        return ""


def _others() -> Iterable[Other]:
    def other(name: str, module: str, kind: str, lr: float, *options: Any, package: str = "",
              on_gpu: Options = (), **flags: bool) -> Other:  # fmt: skip
        flags = {"captured": not package, **flags}
        return Other(name, "lr", lr, options, **flags, place=(module, kind), package=package,
                     on_gpu=on_gpu)  # fmt: skip

    torchs, none, gpu = "torch.optim", ("weight_decay", 0.0), (("capturable", True),)
    # The other kernels of SGD read a scheduled learning rate on the host.
    yield other("SGD", torchs, "SGD", 1e-3, ("momentum", 0.9), on_gpu=(("fused", True),))
    yield other("AdamW", torchs, "AdamW", 1e-3, none, on_gpu=gpu)
    decoupled = ("decoupled_weight_decay", True)
    yield other("NadamW", torchs, "NAdam", 2e-3, decoupled, none, on_gpu=gpu)
    yield other("Adadelta", torchs, "Adadelta", 1.0, on_gpu=gpu)
    yield other("momo-opt", "momo", "Momo", 1.0, package="momo-opt", wants_loss=True)
    yield other("momo-opt-Adam", "momo", "MomoAdam", 1e-2, package="momo-opt", wants_loss=True)
    yield other("Prodigy", "prodigyopt", "Prodigy", 1.0, package="prodigyopt")
    free = "schedulefree"
    yield other("ScheduleFree", free, "AdamWScheduleFree", 2.5e-3, package=free, modes=True)


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


_CONSTANTS = {
    "None": None, "null": None, "True": True, "true": True, "False": False, "false": False,
}  # fmt: skip


def read(text: str) -> tuple[str, Options]:
    """A name and the options after it: numbers, None, True, False or words.

    >>> read("SHBPolyak: c=.5 : scaling=practical")
    ('SHBPolyak', (('c', 0.5), ('scaling', 'practical')))
    """
    name, *given = (part.strip() for part in text.split(":"))
    options = tuple(_option(text, each) for each in given)
    if len(dict(options)) < len(options):
        raise ValueError(f"{text!r}: an option is given twice")
    return name, options


def written(options: Options) -> str:
    """Options as :func:`read` reads them.

    >>> written((("c", 0.5), ("scaling", "practical"), ("steps_per_epoch", None)))
    ':c=0.5:scaling=practical:steps_per_epoch=None'
    """
    return "".join(f":{name}={value}" for name, value in options)


def _option(text: str, part: str) -> tuple[str, Any]:
    option, _, value = (each.strip() for each in part.partition("="))
    if not option:
        raise ValueError(f"{text!r}: a colon must be followed by an option, name=value")
    if value in _CONSTANTS:
        return option, _CONSTANTS[value]
    for kind in (int, float):
        with suppress(ValueError):
            return option, kind(value)
    if value.isidentifier():
        return option, value
    raise ValueError(f"{text!r}: {option!r} must be followed by = and a number or a word")


def contender_of(name: str) -> Contender:
    """The contender of a name; see the top of this module.

    Raises:
        ValueError: there is no such contender, or an option is out of range.
        TypeError: the method has no such option.

    >>> contender_of("SHBArmijo:c=0.5+cosine").identity(2.0)["options"]["max_step"]
    2.0
    """
    cosine = name.endswith(COSINE)
    head, options = read(name.removesuffix(COSINE))
    if "+" in head:
        raise ValueError(f"{name!r}: the only ending is {COSINE!r}")
    check_name(head, beside=OTHERS)
    if head not in OTHERS:
        return Ours.of(METHODS[head], options, cosine=cosine)
    return OTHERS[head].with_options(options, cosine=cosine)
