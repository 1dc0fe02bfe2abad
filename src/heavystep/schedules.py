"""The diminishing schedules of Section 4 and the assumption that they must meet.

A schedule says how fast it falls (:class:`Decay`), and Assumption 5 is decided from that, exactly.
:class:`PowerLaw` is the paper's; a schedule of your own has the attributes of :class:`Schedule`.
"""

from fractions import Fraction
from math import inf
from typing import Any, NamedTuple, Protocol, cast


def exact(power: Any) -> Any:
    """The decimal number that ``power`` prints as: 0.7 is meant to be 7/10.

    A sum of floats may be on the wrong side of a condition that the exponents meet with equality.

    >>> exact(0.1) + exact(0.2) == exact(0.3)
    True
    """
    return power if isinstance(power, (Fraction, int)) else Fraction(repr(float(power)))


class Decay(NamedTuple):
    r"""How fast a schedule falls: like :math:`k^{-p}(\log k)^{-q}`; p infinite: faster than any.

    >>> Decay(0.5).times(Decay(0.5, 2)).summable, Decay(1).summable
    (True, False)
    """

    power: Any
    log_power: Any = 0

    def times(self, other: "Decay") -> "Decay":
        """The decay of a product of two schedules."""
        pairs = zip(self, other, strict=True)
        return Decay(*(inf if inf in pair else exact(pair[0]) + exact(pair[1]) for pair in pairs))

    @property
    def summable(self) -> bool:
        """Whether the sum over all k is finite (Bertrand)."""
        return bool(self.power > 1 or (exact(self.power) == 1 and self.log_power > 1))

    @property
    def vanishes(self) -> bool:
        """Whether the schedule goes to 0."""
        return bool(self.power > 0 or (self.power == 0 and self.log_power > 0))

    def __str__(self) -> str:
        log = f" (log k)^{-float(self.log_power):g}" if self.log_power else ""
        return f"like k^{-float(self.power):g}{log}" if self.power < inf else "faster than k^-p"


class Schedule(Protocol):
    """A function of k, an int or an array, that says how it falls.

    ``initial`` is its value at k = 0 and the largest. The decay sets in after ``horizon`` steps, at
    the rate ``decay`` (None: unknown). ``falls`` says whether no value is above the one before.
    """

    @property
    def initial(self) -> float: ...  # noqa: D102
    @property
    def horizon(self) -> float: ...  # noqa: D102
    @property
    def decay(self) -> Decay | None: ...  # noqa: D102
    @property
    def falls(self) -> bool: ...  # noqa: D102
    def __call__(self, k: Any) -> Any: ...  # noqa: D102


class PowerLaw(NamedTuple):
    r"""The schedule :math:`a\,(1 + k/h)^{-p}` of Section 5.

    >>> PowerLaw(initial=0.5, power=1.0, horizon=10.0)(10)
    0.25
    """

    initial: float
    """a, the value at k = 0."""
    power: float
    """p; 0 is a constant schedule."""
    horizon: float = 1e4
    """h, the number of steps after which the decay sets in."""

    @property
    def decay(self) -> Decay:
        """p, as the decimal number that it prints as."""
        return Decay(exact(self.power))

    @property
    def falls(self) -> bool:
        """True unless p < 0."""
        return self.power >= 0.0

    def __call__(self, k: Any) -> Any:
        """The value at step ``k``, an int or an array of them."""
        return self.initial * (1.0 + k / self.horizon) ** -self.power


class Schedules(NamedTuple):
    r"""The three schedules of a diminishing variant; power laws share one horizon.

    >>> Schedules.power_laws(0.5, 0.4, 0.9, 1.1, 0.02, 0.3).eta(0)
    0.5
    """

    eta: Schedule
    """Outer multiplier eta_k."""
    beta: Schedule
    """Momentum beta_k."""
    gamma_max: Schedule
    """Largest step gamma_max,k."""

    @classmethod
    def power_laws(
        cls, eta0: float, eta_power: float, beta0: float, beta_power: float, gamma_max0: float,
        gamma_max_power: float, horizon: float = 1e4,
    ) -> "Schedules":  # fmt: skip
        """Three power laws :math:`a (1 + k/h)^{-p}` from their values at 0 and exponents."""
        return cls(
            PowerLaw(eta0, eta_power, horizon),
            PowerLaw(beta0, beta_power, horizon),
            PowerLaw(gamma_max0, gamma_max_power, horizon),
        )


class Condition(NamedTuple):
    """One inequality of the assumption on schedules."""

    item: str
    """Item of the assumption: (i), (ii) or (iii)."""
    holds: bool
    text: str
    """What must hold, the inequality between exponents that this means, and the number given."""


def diminishing_conditions(
    eta: Schedule, beta: Schedule, max_step: Schedule
) -> tuple[Condition, ...]:
    r"""The paper's assumption on diminishing schedules, item by item, decided exactly.

    (i) :math:`\beta_k` is non-increasing in [0, 1) with :math:`\sum \beta_k < \infty`;
    (ii) :math:`\eta_k \gamma_{\max,k}` is non-increasing and :math:`\gamma_{\max,k} \to 0`;
    (iii) :math:`\sum \eta_k \gamma_{\max,k} = \infty` and
    :math:`\sum \eta_k^2 \gamma_{\max,k} < \infty`.

    A sum of :math:`k^{-p}(\log k)^{-q}` is finite exactly when p > 1, or p = 1 and q > 1. Exponents
    count as the decimal numbers that they print as (:func:`exact`). Schedules other than power laws
    may rise nowhere.

    Raises:
        ValueError: a schedule does not say how fast it falls.

    Reference: Zhang, Shi and Gu, Assumption 5 (label as_decay), Section 4.
    """
    laws = {"eta_k": eta, "beta_k": beta, "gamma_max,k": max_step}
    for name, law in laws.items():
        if law.decay is None:
            raise ValueError(f"{name} does not say how fast it falls: its `decay` is None")
    of_eta, of_beta, of_cap = (cast(Decay, law.decay) for law in laws.values())
    step = of_eta.times(of_cap)
    square = step.times(of_eta)
    powers = all(isinstance(law, PowerLaw) for law in laws.values())

    def condition(item: str, holds: bool, must: str, inequality: str, got: Any) -> Condition:
        text = f"{must}, which needs {inequality}, got {float(got.power):g}"
        return Condition(item, holds, text if powers else f"{must}; it falls {got}")

    steps, squares = "sum of eta_k gamma_max,k must", "sum of eta_k^2 gamma_max,k must"
    falls = step.power >= 0 if powers else eta.falls and max_step.falls
    found = (
        condition("(i)", beta.initial == 0.0 or of_beta.summable,
                  "sum of beta_k must be finite", "beta_power > 1", of_beta),
        condition("(ii)", of_cap.vanishes,
                  "gamma_max,k must go to 0", "max_step_power > 0", of_cap),
        condition("(ii)", falls,
                  "eta_k gamma_max,k must not increase", "eta_power + max_step_power >= 0", step),
        condition("(iii)", not step.summable, f"{steps} be infinite",
                  "eta_power + max_step_power <= 1", step),
        condition("(iii)", square.summable, f"{squares} be finite",
                  "2 eta_power + max_step_power > 1", square),
    )  # fmt: skip
    rising = [] if powers else [name for name, law in laws.items() if not law.falls]
    return found + tuple(Condition("(i)", False, f"{name} must not increase") for name in rising)


def check_diminishing(eta: Schedule, beta: Schedule, max_step: Schedule) -> None:
    """Refuse schedules outside the assumption (:func:`diminishing_conditions`).

    Raises:
        ValueError: names the item and the inequality that fails, with its numbers.

    >>> check_diminishing(PowerLaw(0.5, 0.4), PowerLaw(0.9, 1.1), PowerLaw(0.02, 0.3))
    >>> check_diminishing(PowerLaw(0.5, 0.4), PowerLaw(0.9, 0.9), PowerLaw(0.02, 0.3))
    Traceback (most recent call last):
    ValueError: schedule breaks item (i) of ... which needs beta_power > 1, got 0.9
    """
    for condition in diminishing_conditions(eta, beta, max_step):
        if not condition.holds:
            raise ValueError(
                f"schedule breaks item {condition.item} of the paper's Assumption on diminishing "
                f"schedules (Theorems 6-9): {condition.text}"
            )
