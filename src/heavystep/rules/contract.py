"""What a rule is: its options, its memory and its formulas, all in one file of this package.

A rule chooses one number a step, the step size before the outer multiplier ``lr``. Its formulas
are pure functions of numbers, written with arithmetic, comparisons and
:mod:`heavystep.rules.primitives`; the drivers call them on Python floats, on 0-dim tensors that
stay on their device, on numpy arrays (an entry a run) and inside numba kernels::

    search = start(constants, memory, seen)
    while search.active:                       # line searches only
        search = advance(constants, memory, seen, search, loss at the trial step)
    memory = remember(constants, memory, seen, search)       # unless the batch is refused

``constants``, ``memory`` and ``seen`` have named fields: the rule declares the first two, the third
is :class:`Seen`. Nothing else knows a rule: signatures, range checks, ``state_dict``, kernels,
captured graphs, the command line and the documentation read what is declared here.
"""

from collections import namedtuple
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from heavystep import validation

REQUIRED: Any = ...
"""The default of an option that the user must give."""


class Whole(NamedTuple):
    """The whole numbers from ``least`` on."""

    least: int


@dataclass(frozen=True)
class Option:
    """One number or word that a user may set."""

    name: str
    default: Any
    allowed: validation.Interval | Whole | tuple[Any, ...]
    """A range, whole numbers, or a list of words."""
    text: str
    """One sentence for signatures, pages and the command line."""
    optional: bool = False
    """Whether None is allowed."""
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
            if type(value) is float and value in self.allowed:  # at every step, for every option
                return
            symbols = validation.SYMBOLS | ({self.name: self.symbol} if self.symbol else {})
            validation.real(self.name, value, self.allowed, symbols)
        elif isinstance(self.allowed, Whole):
            validation.integer(self.name, value, self.allowed.least)
        else:
            validation.choice(self.name, value, self.allowed)


class Seen(NamedTuple):
    """What a rule may look at. A driver computes the fields that the rule says it ``reads``."""

    loss: Any = 0.0
    """f(theta_k; x_k); 0 if the rule does not read it and none was given."""
    lower_bound: Any = 0.0
    """A lower bound of the sampled loss; -inf if none is known."""
    grad_sqnorm: Any = 0.0
    """||g_k||^2, the squared norm of the sampled gradient."""
    loss_eps: Any = 0.0
    """Relative rounding error of the loss; line searches compare losses with a tolerance of it."""
    direction_sqnorm: Any = 0.0
    """||d_k||^2, for the direction d_k of the momentum form."""
    slope: Any = 0.0
    """<g_k, d_k>."""
    drift: Any = 0.0
    """<g_k, b_k> for the buffer b_k of the momentum form, under heavy ball the displacement
    theta_k - theta_{k-1}."""
    grad_position: Any = 0.0
    """<g_k, theta_k>."""
    direction_position: Any = 0.0
    """<d_k, theta_k>."""
    buffer_sqnorm: Any = 0.0
    """||b_k||^2."""


class Product(NamedTuple):
    """An inner product of two vectors that a driver holds."""

    left: str
    """``"gradient"``, ``"direction"``, ``"buffer"`` or ``"position"``, and so is the other."""
    right: str
    divided: bool
    """Whether a method with a diagonal D measures it as <x, D^-1 y>."""


PRODUCTS = {
    "grad_sqnorm": Product("gradient", "gradient", divided=True),
    "direction_sqnorm": Product("direction", "direction", divided=True),
    "slope": Product("gradient", "direction", divided=True),
    "drift": Product("gradient", "buffer", divided=False),
    "grad_position": Product("gradient", "position", divided=False),
    "direction_position": Product("direction", "position", divided=False),
    "buffer_sqnorm": Product("buffer", "buffer", divided=False),
}
"""The fields of :class:`Seen` that are inner products, in their order.

``grad_sqnorm`` is always computed; the others are the last fields.
"""
GRADIENT, DIRECTION = "gradient", "direction"


class Search(NamedTuple):
    """What a rule has decided so far. A closed form has decided all of it at once."""

    step: Any
    """The step before the outer multiplier; it counts once the search is over."""
    accepted: Any
    """Whether the step may be taken. False: the batch is refused and nothing changes."""
    capped: Any
    """Whether the step is the largest that the rule's caps allow."""
    trial: Any = 0.0
    """The trial step t: the loss at theta_k - t g_k is wanted next, or at theta_k - t d_k from a
    rule that searches along the direction."""
    trials: Any = 0
    """How many trial losses were evaluated."""
    active: Any = False
    """Whether the loss at ``trial`` is wanted."""
    trial_loss: Any = 0.0
    """The loss at the last trial, for a rule that remembers it."""
    momentum: Any = 0.0
    """The momentum of this step, from a rule that ``steers``; it must be known at the start."""


class Batches(NamedTuple):
    """How the batches of successive steps are related, where a rule compares them.

    Simulations draw them so; :class:`heavystep.batches.PersistentBatches` does it for a DataLoader.
    """

    kept_for: str = ""
    """The option that says for how many steps a batch is kept; empty: for one."""
    overlap: bool = False
    """Whether the first half of a batch is the second half of the one before."""


NEW_BATCHES = Batches()


def no_advance(constants: Any, memory: Any, seen: Any, search: Any, trial_loss: Any) -> Any:
    """The ``advance`` of a closed form, which has nothing to try."""
    return search


def skip_nothing(constants: Any, memory: Any, seen: Any, search: Any) -> Any:
    """The ``skip`` of a rule that cannot tell beforehand which trials must fail."""
    return search


def remember_nothing(constants: Any, memory: Any, seen: Any, search: Any) -> Any:
    """The ``remember`` of a rule without memory."""
    return ()


def weigh_the_last(constants: Any, memory: Any) -> Any:
    """The ``weigh`` of a rule that averages nothing: an average is its last point."""
    return 1.0


def as_given(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Options as they are: the ``settle`` and ``resolve`` of a rule that needs neither."""
    return options


@dataclass(frozen=True, eq=False)
class Rule:
    r"""A step-size rule. Make one at the end of its file; :mod:`heavystep.methods` gives it a name.

    >>> half = Rule("half", r"\gamma_k = 1/2", "a constant", options=(),
    ...             start=lambda constants, memory, seen: Search(0.5, True, False))
    >>> half.start(half.Constants(), half.Memory(), Seen()).step
    0.5
    """

    name: str
    formula: str
    r"""The step in LaTeX, one line: what docstrings and pages show."""
    reference: str
    """Where the rule was published, or how it was obtained."""
    options: tuple[Option, ...]
    start: Callable[[Any, Any, Seen], Search]
    reads: frozenset[str] = frozenset({"loss", "lower_bound", "grad_sqnorm"})
    """The fields of :class:`Seen` that the formulas use."""
    constants: tuple[str, ...] | None = None
    """What the formulas read besides memory; None: the options themselves."""
    settle: Callable[[Mapping[str, Any]], Mapping[str, Any]] = as_given
    """Fills in options whose default depends on others, once, when a method is set up."""
    resolve: Callable[[Mapping[str, Any]], Mapping[str, Any]] = as_given
    """From options, the momentum among them, to the constants; options may be arrays over steps."""
    memory: Mapping[str, float] = field(default_factory=dict)
    """What is carried from step to step, with its first value."""
    remember: Callable[[Any, Any, Seen, Search], tuple[Any, ...]] = remember_nothing
    """The memory after an accepted step, in the order of ``memory``."""
    searches: bool = False
    """Whether it evaluates the loss at trial points, and so needs a closure."""
    advance: Callable[[Any, Any, Seen, Search, Any], Search] = no_advance
    skip: Callable[[Any, Any, Seen, Search], Search] = skip_nothing
    """Passes over trials that must fail, on numbers; saves evaluations and changes no step."""
    along: str = GRADIENT
    """What trials go along: ``"gradient"``, or ``"direction"`` for that of the momentum form."""
    steers: bool = False
    """Whether it sets the momentum of each step itself."""
    weigh: Callable[[Any, Any], Any] = weigh_the_last
    """The weight of the point that this step leads to in the average of a momentum form that has
    one, from constants and memory."""
    foresees: bool = False
    """Whether the first trial step depends on constants and memory alone, not on the batch."""
    clips_last: bool = False
    """Whether ``max_step`` clips the step when all else is decided, and nothing remembers it: steps
    that never reach it are then those without it."""
    letters: str = ""
    """What the letters of the formula mean that only this rule has, in a sentence."""
    batches: Batches = NEW_BATCHES
    theory: str = ""
    """The name under which :mod:`heavystep.theory` knows the rule; empty: no theorem covers it."""
    version: int = 1
    """To be raised when the same numbers go in and others come out; part of the key of runs."""

    @property
    def averages(self) -> bool:
        """Whether it says how a momentum form averages."""
        return self.weigh is not weigh_the_last

    def __post_init__(self) -> None:
        names = self.constants
        if names is None:
            names = tuple(option.name for option in self.options)
        taken = {option.name for option in self.options} | {"lr", "momentum", "params"}
        faults = {
            "memory and option of one name": taken & set(self.memory),
            "reads what no driver gives": set(self.reads) - set(Seen._fields),
            "memory without remember": (
                set(self.memory) if self.remember is remember_nothing else set()
            ),
            "constants that are no options, and no resolve": (
                set(names) - taken if self.resolve is as_given else set()
            ),
            "trials along": {self.along} - {GRADIENT, DIRECTION},
            "steers the direction that it reads": (
                {name for name in self.reads if DIRECTION in PRODUCTS.get(name, ())}
                if self.steers
                else set()
            ),
            "keeps batches for": {self.batches.kept_for} - {"", *(o.name for o in self.options)},
            "steers and foresees": {"steers"} if self.steers and self.foresees else set(),
        }
        for fault, which in faults.items():
            if which:
                raise ValueError(f"rule {self.name!r}: {fault}: {', '.join(sorted(which))}")
        object.__setattr__(self, "constants", names)
        object.__setattr__(self, "Constants", namedtuple("Constants", names))
        object.__setattr__(self, "Memory", namedtuple("Memory", tuple(self.memory)))

    Constants: Callable[..., Any] = field(init=False, repr=False)
    Memory: Callable[..., Any] = field(init=False, repr=False)

    def constants_of(self, options: Mapping[str, Any]) -> Any:
        """The constants for these options, as the formulas take them."""
        resolved = self.resolve(options)
        return self.Constants(*(resolved[name] for name in self.constants or ()))

    def looks_at(self, options: Mapping[str, Any]) -> Any:
        """All that steps depend on in these options: what they come to, and what drivers read."""
        read = (*Seen._fields, self.batches.kept_for)
        asked = {name: options[name] for name in read if name in options}
        return self.constants_of(options), asked
