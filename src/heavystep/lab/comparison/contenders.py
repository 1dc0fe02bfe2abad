"""Who is compared: methods of the registry, torch's optimizers and those of other packages.

A contender is named as on the command line: a method of ``heavystep methods`` or a row of
:data:`OTHERS`, perhaps with options (``SHBArmijo:c=0.5``, ``SGD:weight_decay=0.0005``), perhaps
with an ending: ``+cosine`` adds a warm-up and a cosine. Everybody is tried with nothing set, and
with six decades of one main constant, if its default is a number.
"""

from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata
from inspect import signature
from math import inf
from typing import Any, NamedTuple

import torch
from torch.optim import Optimizer

from heavystep import validation
from heavystep.lab.training.trainer import Work, search_options
from heavystep.methods import METHODS, Method, check_name
from heavystep.optimizers import create
from heavystep.rules import REQUIRED

COSINE = "+cosine"
WITHOUT_DEFAULT = 0.1
"""Centre of the grid for a learning rate without a default."""
FORMULAS: dict[str, int] = {}
"""Versions of rules by name, 1 where none is said. Raise one when the rule or its momentum form
gives other numbers: its runs are then made again. A test has pinned numbers."""
CONSTANTS = {
    "None": None, "null": None, "True": True, "true": True, "False": False, "false": False,
}  # fmt: skip


class Other(NamedTuple):
    """An optimizer of torch, or of another package, with the defaults of its package.

    Args:
        options: that are always set: no weight decay, and SGD has momentum.
        package: what is to be installed; empty: torch.
        on_gpu: options without which a step cannot be recorded there.
    """

    module: str
    kind: str
    lr: float
    options: dict[str, Any]
    package: str = ""
    on_gpu: dict[str, Any] = {"capturable": True}  # noqa: RUF012 - nobody changes it

    def load(self) -> Any:
        """The class."""
        return getattr(import_module(self.module), self.kind)


TORCH, FREE, NONE = "torch.optim", "schedulefree", {"weight_decay": 0.0}
OTHERS = {
    # The other kernels of SGD read a scheduled learning rate on the host.
    "SGD": Other(TORCH, "SGD", 1e-3, {"momentum": 0.9}, on_gpu={"fused": True}),
    "AdamW": Other(TORCH, "AdamW", 1e-3, NONE),
    "NadamW": Other(TORCH, "NAdam", 2e-3, {"decoupled_weight_decay": True, **NONE}),
    "Adadelta": Other(TORCH, "Adadelta", 1.0, {}),
    "momo-opt": Other("momo", "Momo", 1.0, {}, "momo-opt", {}),
    "momo-opt-Adam": Other("momo", "MomoAdam", 1e-2, {}, "momo-opt", {}),
    "Prodigy": Other("prodigyopt", "Prodigy", 1.0, {}, "prodigyopt", {}),
    "ScheduleFree": Other(FREE, "AdamWScheduleFree", 2.5e-3, {}, FREE, {}),
}
USUAL = (
    "HeavyStep", "HeavyStep:diagonal=tensor", "HeavyStep:diagonal=None",
    "SHBPolyak:scaling=practical", "SHBArmijo:scaling=practical", "SFPolyak", "ScheduleFreePlus",
    "SGD", "SGD+cosine", "AdamW", "AdamW+cosine", "NadamW+cosine", "Adadelta", "momo-opt",
    "momo-opt-Adam", "Prodigy", "ScheduleFree",
)  # fmt: skip
"""The contenders if the user names none."""


@dataclass(frozen=True)
class Contender:
    """An optimizer that is tried with many values of its main constant; :func:`contender_of`.

    Args:
        name: with options and schedule.
        kind: a row of the registry, or of :data:`OTHERS`.
        options: that are set.
        main: the name of the main constant.
        default: its value with nothing set, in the middle of its grid; None: it is no number, and
            there is no grid.
    """

    name: str
    kind: Method | Other
    options: dict[str, Any]
    main: str
    default: float | None

    @property
    def cosine(self) -> bool:
        return self.name.endswith(COSINE)

    @property
    def ours(self) -> bool:
        return isinstance(self.kind, Method)

    def values(self, per_decade: int = 1) -> tuple[float, ...]:
        """Six decades around the default; 0 a decade: none. Finer grids have coarser ones' values.

        >>> contender_of("AdamW").values()
        (1e-06, 1e-05, 0.0001, 0.001, 0.01, 0.1, 1.0)
        """
        if not per_decade or self.default is None:
            return ()
        allowed: Any = validation.POSITIVE
        if isinstance(self.kind, Method):
            found = {option.name: option.allowed for option in self.kind.options}.get(self.main)
            allowed = found if isinstance(found, validation.Interval) else ()
        powers = (place / per_decade for place in range(-3 * per_decade, 3 * per_decade + 1))
        values = (float(f"{self.default * 10.0**power:.12g}") for power in powers)
        return tuple(value for value in values if value in allowed)

    def chosen(self, value: float | None) -> dict[str, Any]:
        """The options that are set, with this value of the main constant; None: nothing is set."""
        return self.options | ({} if value is None else {self.main: value})

    def identity(self, value: float | None) -> dict[str, Any]:
        """Everything that decides its steps, versions among them, for the key of a run."""
        kind, options, version = self.kind, self.chosen(value), ""
        if isinstance(kind, Method):
            known = {option.name for option in kind.options}
            options |= kind.complete({name: options[name] for name in options.keys() & known})
            name, version = kind.name, str(FORMULAS.get(kind.rule.name, 1))
        else:
            name = f"{kind.module}.{kind.kind}"
            if kind.package and not self.left_out():
                version = metadata.version(kind.package)
        return {"name": name, "options": options, "cosine": self.cosine, "version": version}

    def optimizer(self, work: Work, value: float | None) -> Optimizer:
        """The optimizer of a network."""
        options, kind = self.chosen(value), self.kind
        if isinstance(kind, Method):
            return create(kind.name, work.parameters(), **options | search_options(kind, work))
        on_gpu = kind.on_gpu if work.device.type == "cuda" else {}
        made: Optimizer = kind.load()(work.parameters(), **options | on_gpu)
        return made

    def left_out(self) -> str:
        """One line that says why it cannot be tried here, or nothing."""
        if isinstance(self.kind, Other):
            try:
                import_module(self.kind.module)
            except ImportError:  # it is missing, or broken
                return f"it needs {self.kind.package}: pip install {self.kind.package}"
        return ""


@cache
def contender_of(name: str) -> Contender:
    """The contender of a name; see the top of this module.

    Raises:
        ValueError: there is no such contender, or an option is out of range.
        TypeError: there is no such option.

    >>> contender_of("SHBArmijo:c=0.5+cosine").identity(2.0)["options"]["max_step"]
    2.0
    """
    head, *given = (part.strip() for part in name.removesuffix(COSINE).split(":"))
    if "+" in head:
        raise ValueError(f"{name!r}: the only ending is {COSINE!r}")
    check_name(head, beside=OTHERS)
    options = {}
    for part in given:
        option, _, text = (each.strip() for each in part.partition("="))
        if not option or option in options:
            raise ValueError(f"{name!r}: after a colon comes an option, name=value, each one once")
        options[option] = _value(text, f"{name!r}: {option!r}")
    params = [torch.zeros(1, requires_grad=True)]
    if head in METHODS:
        method = METHODS[head]
        usual: Any = ({o.name: o.default for o in method.options} | options).get(method.main)
        if usual is REQUIRED:
            usual = options[method.main] = WITHOUT_DEFAULT
        create(head, params, **options)  # which refuses what it does not know, or is out of range
        number = isinstance(usual, float | int) and not isinstance(usual, bool)
        default = float(usual) if number and 0.0 < usual < inf else None
        return Contender(name, method, options, method.main, default)
    other = OTHERS[head]
    options = {"lr": other.lr, **other.options, **options}
    validation.real("lr", options["lr"], validation.POSITIVE, {})
    made = Contender(name, other, options, "lr", options["lr"])
    if given and not made.left_out():
        known = list(signature(other.load()).parameters)[1:]
        for option in options:
            if option not in known:
                raise TypeError(f"{name!r}: {option!r} is no option, only {', '.join(known)}")
        try:
            other.load()(params, **options)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name!r}: {error}") from None
    return made


def _value(text: str, what: str) -> Any:
    """A number, None, True, False or a word."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    if not text.isidentifier():
        raise ValueError(f"{what} must be followed by = and a number or a word")
    return CONSTANTS.get(text, text)
