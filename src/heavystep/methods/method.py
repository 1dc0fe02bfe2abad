"""A method: a rule, a momentum form, perhaps a diagonal, under a name; and their registry."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from heavystep import validation
from heavystep.momentum import DIAGONALS, HEAVY_BALL, METRIC, Form
from heavystep.rules import ARMIJO, POLYAK, PRODUCTS, REQUIRED, Option, Rule

LR = Option(
    "lr",
    1.0,
    validation.NON_NEGATIVE,
    "outer multiplier eta of the step, >= 0 (default 1.0). Any torch LR scheduler drives it; it "
    "need not be tuned. May differ by group.",
)
MOMENTUM = Option("momentum", 0.9, validation.UNIT, "momentum beta, in [0, 1).")
DIAGONAL = Option(
    "diagonal",
    "element",
    ("element", "tensor", None),
    'the metric: one second moment an element as in Adam ("element"), one a tensor ("tensor"), or '
    "none (None).",
)
NOT_VERIFIED = "not verified"


@dataclass(frozen=True, eq=False)
class Method:
    """One row of the registry."""

    name: str
    """Its public name, that of its optimizer."""
    title: str
    """The name in its paper."""
    summary: str
    """One sentence."""
    rule: Rule
    form: Form = HEAVY_BALL
    diagonals: tuple[str | None, ...] = (None,)
    """The metrics it may have, the default first; a single one is no option."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Options whose default differs from the rule's own."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Options that the method does not leave to the user."""
    reference: str = ""
    """The publication of the method; empty: that of its rule."""
    evidence: str = ""
    """The origin of the formula: paper, authors' code, derived. ``NOT_VERIFIED``: neither the
    publication's text nor code of its authors was at hand."""
    differs: str = ""
    """Departures from its publication or its authors' code."""
    guarantee: str = ""
    """The guarantee of its publication, with its conditions."""
    main: str = ""
    """The option that a user would tune; by default ``max_step``, ``c`` or ``lr``."""

    def __post_init__(self) -> None:
        names = [option.name for option in self.all_options]
        for name in (*self.defaults, *self.fixed):
            if name not in names:
                known = ", ".join(sorted(names))
                raise ValueError(
                    f"method {self.name!r}: its rule has no option {name!r}, only {known}"
                )
        if self.form.averages > self.rule.averages:
            raise ValueError(
                f"method {self.name!r}: its momentum form averages, and its rule does not say how"
            )
        left = [option.name for option in self.options]
        if self.main and self.main not in left:
            raise ValueError(f"method {self.name!r}: main is {self.main!r}, which is no option")
        usual = next((name for name in ("max_step", "c", "lr") if name in left), "")
        object.__setattr__(self, "main", self.main or usual)
        object.__setattr__(self, "reference", self.reference or self.rule.reference)

    @property
    def verified(self) -> bool:
        """False where the formula could not be checked."""
        return self.evidence != NOT_VERIFIED

    @property
    def diagonal(self) -> str | None:
        """The metric, unless options choose another one."""
        return self.diagonals[0]

    @property
    def theory(self) -> str:
        """The name under which the theorems, which are about heavy ball, know it; or empty."""
        covered = self.form is HEAVY_BALL and self.diagonals == (None,)
        return self.rule.name if covered and self.rule in (POLYAK, ARMIJO) else ""

    @property
    def known_as(self) -> str:
        """The name of the rule in records: its name in theorems, or else the method's."""
        return self.theory or self.name

    @property
    def keeps_buffer(self) -> bool:
        """True if the state of a parameter has a momentum buffer."""
        without = self.fixed.get("momentum") == 0.0 and not self.rule.steers
        return not without or any("buffer" in PRODUCTS.get(name, ()) for name in self.rule.reads)

    @cached_property
    def all_options(self) -> tuple[Option, ...]:
        """All options, those that the method fixes among them, with this method's defaults."""
        usual, *others = self.diagonals
        metric = [replace(DIAGONAL, default=usual, allowed=self.diagonals)] if others else []
        # An ``lr`` of the rule itself takes the place of the common one.
        known = {option.name: option for option in (LR, MOMENTUM, *self.rule.options, *metric)}
        own = self.defaults
        return tuple(replace(o, default=own.get(name, o.default)) for name, o in known.items())

    @property
    def options(self) -> tuple[Option, ...]:
        """The options of the user, in the order of signatures, with this method's defaults."""
        return tuple(option for option in self.all_options if option.name not in self.fixed)

    @property
    def formulas(self) -> tuple[str, ...]:
        """Rule, momentum form and diagonal in LaTeX, a line each."""
        metric = (DIAGONALS[self.diagonal],) if self.diagonal else ()
        return self.rule.formula, self.form.formula, *metric

    @property
    def explained(self) -> str:
        """A sentence on the letters in the formulas, if they need one."""
        return METRIC if self.diagonal else ""

    @property
    def needs(self) -> str:
        """The inputs of a step besides the gradient, and its state of each parameter, in words."""
        reads = () if self.rule.searches else self.rule.reads
        epochs = any(o.name == "steps_per_epoch" and o.default is not None for o in self.options)
        wanted = {
            "closure": self.rule.searches,
            "loss": "loss" in reads,
            "lower bound": "lower_bound" in reads,
            "epoch length": epochs,
            "a diagonal": self.diagonal is not None,
        }
        return ", ".join(what for what, needed in wanted.items() if needed) or "nothing"

    def complete(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """All options, checked: those given, the defaults of the others and what is fixed.

        Raises:
            TypeError: an option is unknown or missing.
            ValueError: one is out of range.
        """
        known = {option.name: option for option in self.options}
        for name in given:
            if name not in known:
                raise TypeError(f"{self.name} has no option {name!r}: it has {', '.join(known)}")
        filled = {name: given.get(name, option.default) for name, option in known.items()}
        for name, value in filled.items():
            if value is REQUIRED:
                raise TypeError(f"{self.name} needs {name}: {known[name].text}")
        values = {**self.fixed, **filled}
        options = {option.name: values[option.name] for option in self.all_options}
        self.check(options)
        self.rule.resolve(options)
        return options

    def check(self, options: Mapping[str, Any]) -> None:
        """Refuse options out of range, and others than the method fixes."""
        for option in self.all_options:
            option.check(options[option.name])
        for name, value in self.fixed.items():
            if options[name] != value:
                raise ValueError(
                    f"{validation.label(name)} must be {value!r} for {self.name}, which leaves no "
                    f"choice of it to users and schedulers, got {options[name]!r}"
                )


METHODS: dict[str, Method] = {}
"""By name, in their order in lists."""
SCHEDULER = "Diminishing"
"""It is listed beside the methods and is no optimizer."""


def register(method: Method) -> Method:
    """Add a method, so that every part of the package finds it by its name.

    Raises:
        ValueError: the name is taken.
    """
    if method.name in METHODS:
        raise ValueError(f"there is a method {method.name!r} already")
    METHODS[method.name] = method
    return method


def method_of(name: str) -> Method:
    """The method of that name.

    >>> method_of("SPS").rule.name
    'polyak'
    >>> method_of("SHBPolyack")
    Traceback (most recent call last):
    ValueError: no method is named 'SHBPolyack'; nearest: SHBPolyak...; heavystep methods lists all
    """
    if name not in METHODS:
        check_name(name)  # refuses it
    return METHODS[name]


def check_name(name: str, beside: Iterable[str] = ()) -> None:
    """Refuse a name that no method has, nor anything ``beside`` them, and say which are near.

    Names of publications are not accepted, but lead to that of the method.

    >>> check_name("SHB-PS")
    Traceback (most recent call last):
    ValueError: no method is named 'SHB-PS'; nearest: SHBPolyak...; heavystep methods lists all
    """
    names = (*METHODS, *beside)
    if name in names:
        return
    if name == SCHEDULER:
        raise ValueError(
            f"{name} is not an optimizer, but heavystep.{name}(optimizer), a scheduler"
        )
    titles = {method.title.lower(): name for name, method in METHODS.items()}
    words = titles | {other.lower(): other for other in names}
    close = get_close_matches(str(name).lower(), words, n=3)
    near = ", ".join(dict.fromkeys(words[word] for word in close))
    hint = f"; nearest: {near}" if near else ""
    raise ValueError(f"no method is named {name!r}{hint}; heavystep methods lists all")
