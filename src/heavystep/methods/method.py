"""A method: a rule, a momentum form, perhaps a diagonal, and the options that it fixes, named."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from heavystep import validation
from heavystep.methods.effect import check_effect, check_none, without_effect
from heavystep.momentum import HEAVY_BALL, Diagonal, Form
from heavystep.momentum.diagonal import METRIC, SQUARES
from heavystep.rules import PRODUCTS, REQUIRED, Option, Rule

LR = Option(
    "lr",
    1.0,
    validation.NON_NEGATIVE,
    "outer multiplier eta of the step, >= 0 (default 1.0). Any torch LR scheduler drives it; it "
    "need not be tuned. May differ by group.",
)
EPOCH = "steps_per_epoch"
MAIN_OPTIONS = ("max_step", "c", "lr")
"""What users of a method would tune, unless its row says otherwise."""
MOMENTUM = Option("momentum", 0.9, validation.UNIT, "momentum beta, in [0, 1).")
BETA2 = Option(
    "beta2",
    0.999,
    validation.UNIT,
    "decay beta_2 of the average of squared gradients in the diagonal, in [0, 1).",
    symbol="beta_2",
)
DIAGONAL_EPS = Option("diagonal_eps", 1e-8, validation.POSITIVE, "added to the diagonal, > 0.")


@dataclass(frozen=True, eq=False)
class Method:
    """One row of the registry."""

    name: str
    """Its public name, that of its optimizer."""
    title: str
    """What its paper calls it."""
    summary: str
    """One sentence."""
    rule: Rule
    form: Form = HEAVY_BALL
    diagonal: Diagonal | None = None
    """What stretches the space of the parameters; None: nothing does."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Options whose default differs from the rule's own."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Options that the method does not leave to the user."""
    described: tuple[Option, ...] = ()
    """Options that mean something else here than elsewhere, such as a learning rate to tune."""
    reference: str = ""
    """Where the method was published; empty: where its rule was."""
    evidence: str = ""
    """How the formula was obtained: from the paper, the authors' code, derived, or not verified."""
    differs: str = ""
    """Where it departs from its publication or from the authors' code, beside what all methods of
    this package have in common; empty: nowhere that we know."""
    guarantee: str = ""
    """What its publication proves, and where it holds; empty: nothing."""
    by_scaling: Mapping[str, Rule] = field(default_factory=dict)
    """Other rules than ``rule``, by the value of ``scaling`` that asks for them. Their options are
    among those of ``rule``. One that averages nothing has heavy ball in place of a form that
    does."""
    main: str = ""
    """The option that a user would tune, if one had to be; empty: the first of
    :data:`MAIN_OPTIONS` that the method has."""

    def __post_init__(self) -> None:
        names = {option.name for option in self._declared}
        for name in (*self.defaults, *self.fixed, *(option.name for option in self.described)):
            if name not in names:
                raise ValueError(
                    f"method {self.name!r}: its rule has no option {name!r}, only "
                    f"{', '.join(sorted(names))}"
                )
        if self.form.averages > self.rule.averages:
            raise ValueError(
                f"method {self.name!r}: its momentum form averages, and its rule does not say how"
            )
        object.__setattr__(self, "reference", self.reference or self.rule.reference)
        left = [option.name for option in self.options]
        if self.main and self.main not in left:
            raise ValueError(f"method {self.name!r}: main is {self.main!r}, which is no option")
        usual = next((name for name in MAIN_OPTIONS if name in left), "")
        object.__setattr__(self, "main", self.main or usual)

    def chosen(self, options: Mapping[str, Any]) -> "Method":
        """The method with the rule that these options ask for: this one, or one of another rule.

        >>> from heavystep.methods import SHB_POLYAK
        >>> SHB_POLYAK.chosen({"scaling": "theory"}).rule.name
        'polyak'
        """
        asked = (rule for name, rule in self.by_scaling.items() if name == options["scaling"])
        rule = next(asked, self.rule)
        return self if rule is self.rule else _with_rule(self, rule)

    @property
    def theory(self) -> str:
        """The name under which the theorems know the method; empty: none covers it.

        All of them are about heavy ball, with one step for all parameters.
        """
        covered = self.form is HEAVY_BALL and self.diagonal is None
        return self.rule.theory if covered else ""

    @property
    def known_as(self) -> str:
        """What records call the rule: its name in theorems, or else the method's.

        A method with several rules says which.
        """
        several = f"{self.name} ({self.rule.name})"
        return self.theory or (several if self.by_scaling else self.name)

    @property
    def without_momentum(self) -> bool:
        """Whether it has none, whatever the user does: fixed at 0, and not steered by the rule."""
        return self.fixed.get("momentum") == 0.0 and not self.rule.steers

    @property
    def keeps_buffer(self) -> bool:
        """Whether a parameter has the momentum's buffer for its state."""
        read = (PRODUCTS[name][:2] for name in self.rule.reads if name in PRODUCTS)
        return not self.without_momentum or any("buffer" in pair for pair in read)

    @property
    def buffers(self) -> tuple[str, ...]:
        """What the state of a parameter is called, as far as it has the parameter's shape."""
        return (self.form.buffer,) if self.diagonal is None else (self.form.buffer, SQUARES)

    @property
    def explained(self) -> tuple[str, ...]:
        """What pages say of the letters in the formulas: those of the rule, and of the diagonal."""
        texts = (self.rule.letters, "" if self.diagonal is None else METRIC)
        return tuple(filter(None, texts))

    @property
    def _declared(self) -> tuple[Option, ...]:
        """All options, as they were declared, in the order of signatures."""
        diagonal = () if self.diagonal is None else (BETA2, DIAGONAL_EPS)
        return (LR, MOMENTUM, *self.rule.options, *diagonal)

    @property
    def all_options(self) -> tuple[Option, ...]:
        """All options, those that the method fixes among them, with this method's defaults."""
        own = {option.name: option for option in self.described}
        return tuple(
            replace(each, default=self.defaults.get(each.name, each.default))
            for each in (own.get(o.name, o) for o in self._declared)
        )

    @property
    def options(self) -> tuple[Option, ...]:
        """What the user may set, in the order of signatures, with this method's defaults."""
        return tuple(option for option in self.all_options if option.name not in self.fixed)

    def versions(self) -> dict[str, int]:
        """Versions of what the method is made of, for the keys of runs."""
        found = {"rule": self.rule.version, "form": self.form.version}
        diagonal = self.diagonal
        return found if diagonal is None else {**found, "diagonal": diagonal.version}

    @property
    def formulas(self) -> tuple[str, ...]:
        """Rule, momentum form and diagonal in LaTeX, a line each; then :attr:`other_formulas`."""
        parts = (self.rule, self.form, self.diagonal)
        own = tuple(part.formula for part in parts if part is not None)
        return own + tuple(self.other_formulas)

    @property
    def other_formulas(self) -> dict[str, str]:
        """In LaTeX, the rules that ``scaling`` chooses: each with the words that choose it."""
        chosen: dict[str, list[str]] = {}
        for scaling, rule in self.by_scaling.items():
            chosen.setdefault(rule.formula, []).append(f'"{scaling}"')
        return {formula: f"With scaling {', '.join(words)}:" for formula, words in chosen.items()}

    @property
    def needs(self) -> str:
        """What a step must be given besides the gradient, and what it keeps of each parameter."""
        known = {option.name: option.default for option in self.options}
        wanted = ["closure"] if self.rule.searches else []
        if not self.rule.searches:
            wanted += [name for name in ("loss", "lower_bound") if name in self.rule.reads]
        if EPOCH in known and not without_effect(self, {**known, EPOCH: 2.0}):
            wanted.append("epoch length")
        if self.rule.batches.kept_for:
            wanted.append("batches that are kept (heavystep.batches.PersistentBatches, kept=)")
        if self.rule.batches.overlap:
            wanted.append("batches that overlap (heavystep.batches.PersistentBatches, overlap=True)")
        if self.diagonal is not None:
            wanted.append("a diagonal")
        return ", ".join(wanted).replace("_", " ") or "nothing"

    def complete(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """All options, checked: those given, the defaults of the others and what is fixed.

        If they ask for another rule, they are those of that rule.

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
        settled = self.rule.settle({**self.fixed, **filled})
        chosen = self.chosen(settled)
        check_none(self, chosen, settled)
        chosen.check(settled)
        check_effect(self, filled)
        used = {option.name for option in chosen.all_options}
        return {name: value for name, value in settled.items() if name in used}

    def check(self, options: Mapping[str, Any]) -> None:
        """Refuse options out of range, and others than the method fixes."""
        for name, value in self.fixed.items():
            if options[name] != value:
                raise ValueError(
                    f"{validation.label(name)} must be {value!r} for {self.name}, which leaves no "
                    f"choice of it to users and schedulers, got {options[name]!r}"
                )
        for option in self.all_options:
            option.check(options[option.name])


@cache
def _with_rule(method: Method, rule: Rule) -> Method:
    names = {option.name for option in (LR, MOMENTUM, *rule.options)}
    kept = {name: value for name, value in method.defaults.items() if name in names}
    main = method.main if method.main in names else ""
    form = HEAVY_BALL if method.form.averages > rule.averages else method.form
    return replace(method, rule=rule, form=form, by_scaling={}, defaults=kept, main=main)
