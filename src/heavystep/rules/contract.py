"""The contract of a rule: its options, its memory and its formulas.

A rule chooses one number a step, the step size before the outer multiplier ``lr``. Its formulas
are pure functions of numbers, written with arithmetic, comparisons and
:mod:`heavystep.rules.primitives`. Drivers call them on Python floats and inside numba kernels,
closed forms on 0-dim tensors, too::

    search = start(constants, memory, seen)
    while search.active:                                     # line searches only
        search = advance(constants, memory, seen, search, loss at the trial step)
    memory = remember(constants, memory, seen, search)       # unless the batch is refused

``constants``, ``memory`` and ``seen`` have named fields: ``resolve`` names the first, the rule
declares the second, the third is :class:`Seen`.
"""

from collections import namedtuple
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from heavystep import validation

REQUIRED: Any = ...
"""The default of an option that the user must give."""


class Integers(NamedTuple):
    """The range of an option that is an int: from ``least`` on."""

    least: int


class Slot(NamedTuple):
    """One number that a rule remembers: its first value, and the range of values in a state."""

    first: float
    allowed: validation.Interval = validation.FINITE


@dataclass(frozen=True)
class Option:
    """One number or word that a user may set."""

    name: str
    default: Any
    allowed: validation.Interval | Integers | tuple[Any, ...]
    """A range, whole numbers, or a list of words."""
    text: str
    """One sentence for signatures, pages and the command line."""
    optional: bool = False
    """True: None is allowed."""
    symbol: str = ""
    """The symbol of its paper; empty: the one in :data:`heavystep.validation.SYMBOLS`, if any."""

    def check(self, value: Any) -> None:
        """Refuse a value out of range: argument, symbol, range and value in one line.

        >>> Option("c", 1.0, validation.POSITIVE, "divisor.").check(-1.0)
        Traceback (most recent call last):
        ValueError: c must be > 0 and finite, got -1.0
        """
        if value is None and self.optional:
            return
        if isinstance(self.allowed, validation.Interval):
            symbols = validation.SYMBOLS | ({self.name: self.symbol} if self.symbol else {})
            validation.real(self.name, value, self.allowed, symbols)
        elif isinstance(self.allowed, Integers):
            validation.integer(self.name, value, self.allowed.least)
        else:
            validation.choice(self.name, value, self.allowed)


class Seen(NamedTuple):
    """The numbers of a batch; a driver computes those that the rule says it ``reads``.

    d_k is the direction and b_k the buffer of the momentum form: theta_k - theta_{k-1} under heavy
    ball, z_k - x_k under averaged heavy ball. A diagonal D_k divides as :data:`PRODUCTS` says.
    """

    loss: Any = 0.0
    """f(theta_k; x_k); 0 if the rule does not read it and none was given."""
    lower_bound: Any = 0.0
    """A lower bound of the sampled loss; -inf if none is known."""
    grad_sqnorm: Any = 0.0
    """||g_k||^2, the squared norm of the sampled gradient."""
    loss_eps: Any = 0.0
    """Relative rounding error of the loss, for the tolerance of line searches."""
    pull_sqnorm: Any = 0.0
    """||D_k^-1 g_k||^2: how far a step of length 1 moves a parameter vector, squared."""
    size: Any = 0.0
    """||theta_k||_1 / sqrt(n) for n elements: their mean size, as a distance. Steps and memory must
    not fall as it rises: it is not measured where 0 and infinity give the same."""
    direction_sqnorm: Any = 0.0
    """||d_k||^2."""
    slope: Any = 0.0
    """<g_k, d_k>."""
    drift: Any = 0.0
    """<g_k, b_k>."""
    grad_position: Any = 0.0
    """<g_k, theta_k>."""
    direction_position: Any = 0.0
    """<d_k, theta_k>."""


GRADIENT, DIRECTION = "gradient", "direction"
PRODUCTS = {
    "grad_sqnorm": (GRADIENT, GRADIENT, 1),
    "pull_sqnorm": (GRADIENT, GRADIENT, 2),
    "size": ("|position|", "unit", 0),
    "direction_sqnorm": (DIRECTION, DIRECTION, 1),
    "slope": (GRADIENT, DIRECTION, 1),
    "drift": (GRADIENT, "buffer", 0),
    "grad_position": (GRADIENT, "position", 0),
    "direction_position": (DIRECTION, "position", 0),
}
"""The fields of :class:`Seen` that are inner products <x, D^-power y>: x, y and the power. All
entries of ``unit`` are 1/sqrt(n)."""


class Search(NamedTuple):
    """The decision so far; that of a closed form is complete at once."""

    step: Any
    """The step before the outer multiplier; it counts once the search is over."""
    accepted: Any
    """True: the step may be taken. False: the batch is refused and nothing changes."""
    capped: Any
    """True: the step is the largest that the rule's caps allow."""
    trial: Any = 0.0
    """The trial step t: the loss at theta_k - t g_k, or theta_k - t d_k, is wanted next."""
    trials: Any = 0
    """The number of trial losses that were evaluated."""
    active: Any = False
    """True: the loss at ``trial`` is wanted."""
    trial_loss: Any = 0.0
    """The loss at the last trial, for a rule that remembers it."""
    momentum: Any = None
    """The momentum of this step, from a rule that sets it at the start; None: the option."""
    weight: Any = None
    """The weight of the next point in the average, for a momentum form that averages."""
    decay: Any = None
    """The factor of decoupled ``weight_decay``, before ``lr``; None: the step."""
    known: Any = 0.0
    """Numbers that ``remember`` needs again: a tuple."""


def constants(*names: str, **made: Callable[[Mapping[str, Any]], Any]) -> Callable[..., Any]:
    """A ``resolve`` that takes some options as they are, and makes further numbers of them.

    >>> resolve = constants("c", damping=lambda options: 1.0 - options["momentum"])
    >>> resolve({"c": 2.0, "momentum": 0.75, "lower_bound": 0.0})
    {'c': 2.0, 'damping': 0.25}
    """

    def resolve(options: Mapping[str, Any]) -> dict[str, Any]:
        taken = {name: options[name] for name in names}
        return {**taken, **{name: make(options) for name, make in made.items()}}

    return resolve


RESERVED = frozenset({
    "params", "lr", "momentum", "weight_decay", "decay", "diagonal", "stochastic_rounding",
    "example_loss", "step", "draws",
})  # fmt: skip
"""Entries of parameter groups that no rule may remember a number under."""


def _remember_nothing(constants: Any, memory: Any, seen: Any, search: Any) -> Any:
    return ()


@dataclass(frozen=True, eq=False)
class Rule:
    r"""A step-size rule; :mod:`heavystep.methods` gives it a name.

    >>> half = Rule("half", r"\gamma_k = 1/2", "a constant", options=(),
    ...             start=lambda constants, memory, seen: Search(0.5, True, False))
    >>> half.start(half.constants_of({}), half.Memory(), Seen()).step
    0.5
    """

    name: str
    formula: str
    r"""The step in LaTeX, one line."""
    reference: str
    """The publication of the rule, or its derivation."""
    options: tuple[Option, ...]
    start: Callable[[Any, Any, Seen], Search]
    """The step of a closed form, or the beginning of a search."""
    reads: frozenset[str] = frozenset({"loss", "lower_bound", "grad_sqnorm"})
    """The fields of :class:`Seen` that the formulas use."""
    resolve: Callable[[Mapping[str, Any]], Mapping[str, Any]] = constants()  # noqa: RUF009
    """From options, the momentum among them, to the constants of the formulas. Options may be
    arrays over steps; a ValueError refuses those that do not go together."""
    memory: Mapping[str, Any] = field(default_factory=dict)
    """The numbers carried from step to step: the first value by name, or a :class:`Slot` where a
    state with a value out of range is to be refused."""
    remember: Callable[[Any, Any, Seen, Search], tuple[Any, ...]] = _remember_nothing
    """The memory after an accepted step, in the order of ``memory``."""
    advance: Callable[[Any, Any, Seen, Search, Any], Search] | None = None
    """A line search after the loss at its trial; None: a closed form."""
    along: str = GRADIENT
    """The way of trials: ``"gradient"``, or ``"direction"`` for that of the momentum form."""

    # What follows from the declaration.
    slots: ClassVar[Mapping[str, Slot]]
    Constants: ClassVar[Callable[..., Any]]
    Memory: ClassVar[Callable[..., Any]]
    searches: ClassVar[bool]
    """True: it evaluates the loss at trial points, and so needs a closure."""
    steers: ClassVar[bool]
    """True: it sets the momentum of each step itself."""
    averages: ClassVar[bool]
    """True: it sets the weights with which a momentum form averages."""
    sets_decay: ClassVar[bool]
    """True: it sets what decoupled weight decay is multiplied by, in place of the step."""

    def __post_init__(self) -> None:
        slots = {n: v if isinstance(v, Slot) else Slot(v) for n, v in self.memory.items()}
        first = {name: slot.first for name, slot in slots.items()}
        made = self.resolve({"momentum": 0.9} | {o.name: o.default for o in self.options})
        kinds = {"Constants": namedtuple("Constants", tuple(made)),
                 "Memory": namedtuple("Memory", tuple(slots))}  # fmt: skip
        # The class is frozen, and so are these.
        searches = self.advance is not None
        self.__dict__.update(slots=slots, memory=first, searches=searches, **kinds)
        # They are set in all steps or in none: one step shows it.
        seen = Seen(1.0, 0.0, 1.0, *(1.0,) * (len(Seen._fields) - 3))
        step = self.start(self.Constants(**made), self.Memory(**first), seen)
        steers, averages = step.momentum is not None, step.weight is not None
        self.__dict__.update(steers=steers, averages=averages, sets_decay=step.decay is not None)
        options = {option.name for option in self.options} | RESERVED
        directed = {name for name in self.reads if DIRECTION in PRODUCTS.get(name, ())}
        faults = {
            "memory and option of one name": options & set(slots),
            "reads what no driver gives": set(self.reads) - set(Seen._fields),
            "memory without remember": set(slots) if self.remember is _remember_nothing else set(),
            "trials along": {self.along} - {GRADIENT, DIRECTION},
            "sets the direction that it reads": directed if steers else set(),
        }
        for fault, which in faults.items():
            if which:
                raise ValueError(f"rule {self.name!r}: {fault}: {', '.join(sorted(which))}")

    def constants_of(self, options: Mapping[str, Any]) -> Any:
        """The constants for these options, as the formulas take them."""
        return self.Constants(**self.resolve(options))
