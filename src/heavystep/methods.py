"""The registry: a method is a rule, a momentum form and the options that it fixes, under a name.

Optimizers, simulations, sweeps, the command line and the documentation find a method here. To add
one, write its rule (one file in :mod:`heavystep.rules`), or take one that is there, and
:func:`register` a row; ``tests/toys/`` shows the whole of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from heavystep import validation
from heavystep.momentum import (
    ADAM,
    EXPONENTIAL_AVERAGE,
    HEAVY_BALL,
    NESTEROV,
    TORCH_BUFFER,
    Diagonal,
    Form,
)
from heavystep.rules import (
    ADASLS,
    ADASPS,
    ALIG,
    ALR_SHB,
    ALR_SMAG,
    ARMIJO,
    DECSPS,
    FIXED,
    GOLDSTEIN,
    IAM,
    L4,
    MBCG,
    MOMO,
    MOMSPS,
    MOMSPS_SMOOTH,
    MSL,
    NGN,
    POLYAK,
    PONOS,
    PRODUCTS,
    REQUIRED,
    SALSA,
    SGDM_APS,
    SLISES,
    SLS_DEC,
    SPS_DEC,
    SPS_SAFE,
    Option,
    Rule,
)

PAPER, IN_PAPER = "Zhang, Shi and Gu", "paper"
LR = Option(
    "lr",
    1.0,
    validation.NON_NEGATIVE,
    "outer multiplier eta of the step, >= 0 (default 1.0). Any torch LR scheduler drives it; it "
    "need not be tuned. May differ by group.",
)
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
        object.__setattr__(self, "reference", self.reference or self.rule.reference)
        left = [option.name for option in self.options]
        if self.main and self.main not in left:
            raise ValueError(f"method {self.name!r}: main is {self.main!r}, which is no option")
        usual = next((name for name in MAIN_OPTIONS if name in left), "")
        object.__setattr__(self, "main", self.main or usual)

    @property
    def theory(self) -> str:
        """The name under which the theorems know the method; empty: none covers it.

        All of them are about heavy ball, with one step for all parameters.
        """
        covered = self.form is HEAVY_BALL and self.diagonal is None
        return self.rule.theory if covered else ""

    @property
    def without_momentum(self) -> bool:
        """Whether it has none, whatever the user does."""
        return self.fixed.get("momentum") == 0.0

    @property
    def keeps_buffer(self) -> bool:
        """Whether a parameter has the momentum's buffer for its state."""
        read = (PRODUCTS[name][:2] for name in self.rule.reads if name in PRODUCTS)
        return not self.without_momentum or any("buffer" in pair for pair in read)

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

    @property
    def formulas(self) -> tuple[str, ...]:
        """Rule, momentum form and diagonal in LaTeX, a line each."""
        parts = (self.rule, self.form, self.diagonal)
        return tuple(part.formula for part in parts if part is not None)

    @property
    def needs(self) -> str:
        """What a step must be given besides the gradient, and what it keeps of each parameter."""
        wanted = ["closure"] if self.rule.searches else []
        if not self.rule.searches:
            wanted += [name for name in ("loss", "lower_bound") if name in self.rule.reads]
        if any(option.name == "steps_per_epoch" for option in self.options):
            wanted.append("epoch length")
        if self.rule.batches.kept_for:
            wanted.append("batches kept for several steps")
        if self.rule.batches.overlap:
            wanted.append("overlapping batches")
        if self.diagonal is not None:
            wanted.append("a diagonal")
        return ", ".join(wanted).replace("_", " ") or "nothing"

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
        settled = dict(self.rule.settle({**self.fixed, **filled}))
        self.check(settled)
        return settled

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


METHODS: dict[str, Method] = {}
"""By name, in the order in which they are listed."""


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
    >>> method_of("SGD")
    Traceback (most recent call last):
    ValueError: method must be one of 'SHBPolyak', 'SHBArmijo', ..., got 'SGD'
    """
    validation.choice("method", name, METHODS)
    return METHODS[name]


WITHOUT_MOMENTUM = {"momentum": 0.0, "scaling": "plain"}
RESET_BY_HAND = replace(
    next(option for option in POLYAK.options if option.name == "steps_per_epoch"),
    text="n_b of the smooth reset, >= 1; None turns it off, and so does the default. The "
    "paper's experiments use it: pass the number of batches in an epoch.",
)

SHB_POLYAK = register(
    Method(
        "SHBPolyak",
        "SHB-PS",
        "Stochastic heavy ball with the Polyak step size (SHB-PS).",
        POLYAK,
        reference=f"{PAPER}, Section 2 (theory), Section 4 (plain), Appendix E (practical)",
        evidence=IN_PAPER,
    )
)
SHB_ARMIJO = register(
    Method(
        "SHBArmijo",
        "SHB-ALS",
        "Stochastic heavy ball with the modified Armijo line search (SHB-ALS).",
        ARMIJO,
        defaults={"growth": 2.0},
        reference=f"{PAPER}, Section 2 (theory), Section 4 (plain), Appendix E (practical)",
        evidence=IN_PAPER,
    )
)
SPS = register(
    Method(
        "SPS",
        "SPS",
        "Stochastic Polyak step size, SHBPolyak without momentum.",
        POLYAK,
        defaults={"c": 0.1},
        fixed=WITHOUT_MOMENTUM,
        described=(RESET_BY_HAND,),
        reference=f"Loizou et al. (2021); constants of the baseline in Appendix E of {PAPER}",
        evidence=IN_PAPER,
    )
)
SLS = register(
    Method(
        "SLS",
        "SLS",
        "Stochastic line search, SHBArmijo without momentum.",
        ARMIJO,
        defaults={"growth": 2.0},
        fixed=WITHOUT_MOMENTUM,
        described=(RESET_BY_HAND,),
        reference=f"Vaswani et al. (2019); constants of the baseline in Appendix E of {PAPER}",
        evidence=IN_PAPER,
    )
)
SHB = register(
    Method(
        "SHB",
        "SHB",
        "Stochastic heavy ball with a step that you choose, the baseline of the paper.",
        FIXED,
        described=(
            Option(
                "lr",
                REQUIRED,
                validation.NON_NEGATIVE,
                "the step gamma itself, >= 0; this is the number that the other optimizers choose.",
                symbol="gamma",
            ),
        ),
        reference=f"Polyak (1964); baseline of {PAPER}",
        evidence=IN_PAPER,
    )
)

CODE, DERIVED, FROM_MEMORY = "authors' code", "derived", "not verified"
OURS = "of this package"
NO_MOMENTUM, PLAIN = {"momentum": 0.0}, {"scaling": "plain"}
SLS_MOMENTUM = {"momentum": 0.6, "growth": 2.0}
FAMILY = (
    Method("DecSPS", "DecSPS", "Polyak steps that decrease, where no point fits all.", DECSPS,
           fixed=NO_MOMENTUM, evidence=CODE),
    Method("MomDecSPS", "MomDecSPS", "DecSPS with heavy ball.", DECSPS,
           reference="Oikonomou and Loizou (2025)", evidence=DERIVED),
    Method("AdaSPS", "AdaSPS", "Polyak steps that decrease as the gaps add up.", ADASPS,
           fixed=NO_MOMENTUM, evidence=FROM_MEMORY),
    Method("MomAdaSPS", "MomAdaSPS", "AdaSPS with heavy ball.", ADASPS,
           reference="Oikonomou and Loizou (2025)", evidence=DERIVED),
    Method("SPSSafe", "SPS_safe", "A Polyak step whose divisor cannot vanish.", SPS_SAFE,
           fixed=NO_MOMENTUM, evidence=CODE, main="safeguard"),
    Method("MomSPS", "MomSPS_max", "Polyak steps with heavy ball, damped by 1 - beta.", MOMSPS,
           evidence=CODE),
    Method("MomSPSSmooth", "MomSPS_smooth", "MomSPS with a smooth reset in place of the cap.",
           MOMSPS_SMOOTH, evidence=CODE),
    Method("ALIG", "ALI-G", "Capped Polyak steps with Nesterov's momentum.", ALIG, NESTEROV,
           evidence=CODE),
    Method("L4", "L4Mom", "A fraction of the step to an estimated least loss.", L4,
           EXPONENTIAL_AVERAGE, evidence=CODE, main="fraction"),
    Method("ALRSMAG", "ALR-SMAG", "The Polyak step of torch's momentum buffer.", ALR_SMAG,
           TORCH_BUFFER, evidence="third-party code"),
    Method("SGDMAPS", "SGDM-APS", "The Polyak step of torch's momentum buffer with fading gaps.",
           SGDM_APS, TORCH_BUFFER, evidence=CODE),
    Method("NGN", "NGN", "The harmonic mean of a cap and a Polyak ratio.", NGN, fixed=NO_MOMENTUM,
           evidence=IN_PAPER),
    Method("NGNM", "NGN-M", "NGN with heavy ball.", NGN,
           reference="NGN-M, arXiv 2508.15071 (2025)", evidence=CODE),
    Method("IAM", "IAM", "The Polyak step of the iterate that heavy ball averages.", IAM,
           evidence=DERIVED),
    Method("ALRSHB", "ALR-SHB", "The Polyak step with what momentum does on its own.", ALR_SHB,
           evidence=FROM_MEMORY),
    Method("MoMo", "MoMo", "The Polyak step of an average of linear models.", MOMO,
           EXPONENTIAL_AVERAGE, evidence=CODE),
    Method("SHBPolyakAdam", "SHB-PS with Adam's diagonal", "SHBPolyak in the norm of Adam's "
           "diagonal.", POLYAK, diagonal=ADAM, defaults={"max_step": 0.01}, evidence=OURS),
    Method("NGNMD", "NGN-MDv1", "NGN-M in the norm of Adam's diagonal.", NGN, diagonal=ADAM,
           defaults={"c": 0.01}, reference="NGN-M, arXiv 2508.15071 (2025)", evidence=CODE),
    Method("IAMAdam", "IAM-Adam", "IAM in the norm of Adam's diagonal.", IAM, diagonal=ADAM,
           defaults={"max_step": 0.01}, evidence=DERIVED),
    Method("MoMoAdam", "MoMo-Adam", "MoMo in the norm of Adam's diagonal.", MOMO,
           EXPONENTIAL_AVERAGE, ADAM, defaults={"max_step": 0.01}, evidence=CODE),
    Method("SLSGoldstein", "SLS, Goldstein", "A line search for steps neither too long nor too "
           "short.", GOLDSTEIN, fixed=NO_MOMENTUM, evidence=CODE),
    Method("SLSHeavyBall", "SLS, Polyak momentum", "SLS with heavy ball: the whole Armijo step.",
           ARMIJO, defaults=SLS_MOMENTUM, fixed=PLAIN, described=(RESET_BY_HAND,), evidence=CODE,
           reference="Vaswani et al. (2019); their default is steps_per_epoch=1, growth=1"),
    Method("SLSNesterov", "SLS, Nesterov", "SLS with Nesterov's look-ahead.", ARMIJO, NESTEROV,
           defaults=SLS_MOMENTUM, fixed=PLAIN, described=(RESET_BY_HAND,), evidence=DERIVED,
           reference="Vaswani et al. (2019); differs from their code by a constant momentum"),
    Method("AdaSLS", "AdaSLS", "Armijo steps that decrease as their gains add up.", ADASLS,
           fixed=NO_MOMENTUM, evidence=FROM_MEMORY),
    Method("PoNoS", "PoNoS", "A non-monotone line search from a Polyak step.", PONOS,
           fixed=NO_MOMENTUM, evidence=CODE),
    Method("SPSDec", "SPS, decreasing", "SPS with a cap and a multiplier that fade.", SPS_DEC,
           fixed=NO_MOMENTUM, evidence=FROM_MEMORY),
    Method("SLSDec", "SLS, decreasing", "SLS with a cap and a multiplier that fade.", SLS_DEC,
           fixed=NO_MOMENTUM, evidence=FROM_MEMORY),
    Method("SaLSA", "SaLSA", "An Armijo search on averages, as seldom as it may be.", SALSA,
           fixed=NO_MOMENTUM, evidence=CODE),
    Method("MSL", "MSL", "A line search along torch's momentum buffer.", MSL, TORCH_BUFFER,
           evidence=FROM_MEMORY),
    Method("MBCG", "MBCG-DP", "Conjugate gradients on overlapping batches, with a search.", MBCG,
           TORCH_BUFFER, fixed=NO_MOMENTUM, evidence=CODE),
    Method("SLiSeS", "SLiSeS", "Barzilai and Borwein's step on a kept batch, with a search.",
           SLISES, fixed=NO_MOMENTUM, evidence=FROM_MEMORY),
)  # fmt: skip
"""Rivals and relatives of the paper's methods."""
for _method in FAMILY:
    register(_method)
