"""What is simulated: a method with all its options, some of which may follow a schedule."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from heavystep import validation
from heavystep.arrays import Array
from heavystep.methods import Method, method_of
from heavystep.momentum import Form
from heavystep.rules import Option, Rule, Whole
from heavystep.theory.lemmas import smallest_step

EPS = float(np.finfo(np.float64).eps)
SCHEDULED = ("lr", "momentum", "max_step")
"""The options that may change from step to step."""
AVERAGES = ("uniform", "weighted")
VERSION = 3
"""Part of the key of stored runs. Raise it when the same problem, method and seed give other
numbers because something changed: a rule, a momentum form, the order of operations in a kernel, the
stream of samples, what a metric means. Problems have versions of their own."""


class Parameters(NamedTuple):
    """What the method uses at each of some steps in a row, as float64 arrays."""

    constants: Array
    """(steps, constants) the constants of the rule, in its order."""
    lr: Array
    """(steps,) outer multiplier eta_k."""
    momentum: Array
    """(steps,) momentum beta_k."""


@dataclass(frozen=True)
class Configuration:
    """A method of :mod:`heavystep.methods` with all its options; :func:`configure` makes one.

    It is hashable, and equal configurations give the same numbers.
    """

    method: str
    """Its name in the registry."""
    options: tuple[tuple[str, Any], ...]
    """Names and values, complete and checked, in the order of signatures."""
    average: str = "uniform"
    """Which average of the iterates is measured: ``"uniform"`` is the mean of theta_0 ..
    theta_{k-1} (Theorem 2); ``"weighted"`` is that of theta_1 .. theta_k with the weights
    eta_m gamma_min,m (Theorem 6)."""

    def __getitem__(self, name: str) -> Any:
        """The value of one option: a number, a word, None, or a schedule."""
        return dict(self.options)[name]

    @property
    def _method(self) -> Method:
        """The row of the registry."""
        return method_of(self.method)

    @property
    def rule(self) -> Rule:
        """The rule that chooses the steps."""
        return self._method.rule

    @property
    def form(self) -> Form:
        """The momentum form that takes them."""
        return self._method.form

    @property
    def batches(self) -> tuple[int, bool]:
        """For how many steps a batch is kept, and whether it shares a half with the one before."""
        kind = self._method.batches
        return (int(self["kept"]) if kind == "kept" else 1), kind == "overlap"

    @property
    def diagonal(self) -> str | None:
        """The metric: ``"element"``, ``"tensor"`` or None."""
        chosen: str | None = dict(self.options).get("diagonal", self._method.diagonal)
        return chosen

    @property
    def theory(self) -> str:
        """The name of the rule in :mod:`heavystep.theory`; empty if no theorem covers the method.

        All theorems are about heavy ball.
        """
        return self._method.theory

    @property
    def known_as(self) -> str:
        """What records call the rule."""
        return self._method.known_as

    @property
    def loss_eps(self) -> float:
        """Relative rounding error of the losses, which simulations compute in float64."""
        given = dict(self.options).get("loss_eps")
        return EPS if given is None else float(given)

    @property
    def _names(self) -> tuple[str, ...]:
        """The constants of the rule, in its order."""
        names: tuple[str, ...] = self.rule.Constants._fields  # type: ignore[attr-defined]
        return names

    def rows(self, count: int) -> int:
        """How many of the next steps a table must list: one stands for all without a schedule."""
        scheduled = any(callable(value) for _, value in self.options)
        return count if scheduled else min(count, 1)

    def parameters(self, first: int, count: int) -> Parameters:
        """The constants, multipliers and momenta of the steps first .. first + count - 1."""
        columns = self._columns(first, count)
        names = self._names
        table = np.empty((count, len(names)))
        for place, name in enumerate(names):
            try:
                table[:, place] = columns[name]
            except (TypeError, ValueError):
                raise TypeError(
                    f"the constant {name} of the rule {self.rule.name!r} must be a number to be "
                    f"simulated, got {columns[name]!r}: its `resolve` may turn it into one"
                ) from None
        lr, momentum = (np.full(count, columns[name]) for name in ("lr", "momentum"))
        return Parameters(table, lr, momentum)

    def largest_steps(self, first: int, count: int) -> Array:
        """(count,) gamma_max,k; NaN for a rule without a largest step."""
        columns = self._columns(first, count)
        largest = columns["max_step"] if "max_step" in self._names else np.nan
        return np.full(count, largest, dtype=np.float64)

    def step_bounds(self, L: float, first: int, count: int) -> tuple[Array, Array]:
        """(count,) gamma_min,k and gamma_max,k of Lemmas 2 and 5, before the multiplier.

        Both are NaN for a rule that no theorem covers.

        Args:
            L: smoothness constant of the problem.
            first: number of the first step.
            count: how many steps.
        """
        if not self.theory:
            return np.full(count, np.nan), np.full(count, np.nan)
        columns = self._columns(first, count)
        most = columns["max_step"]
        least = smallest_step(
            self.theory,
            L=L,
            c=columns["c"],
            omega=columns.get("decrease_factor"),
            kappa=columns["kappa"],
            cap=most,
        )
        return np.full(count, least), np.full(count, most)

    def weights(self, L: float, first: int, count: int) -> Array:
        """Weights of theta_{k+1} in the average, one a step; none for a uniform average."""
        if self.average == "uniform":
            return np.empty(0)
        least, _ = self.step_bounds(L, first + 1, count)
        weights: Array = self._columns(first + 1, count)["lr"] * least
        return weights

    def _columns(self, first: int, count: int) -> dict[str, Any]:
        """Options and constants by name, those that follow a schedule as arrays over steps.

        Schedules are expanded before the rule makes constants of them, so that a constant that
        depends on one is computed by the same operations on every path.
        """
        options = dict(self.options)
        k = np.arange(first, first + count)
        for name in SCHEDULED:
            if callable(options.get(name)):
                options[name] = np.asarray(options[name](k), dtype=np.float64)
        return {**options, **self.rule.resolve(options)}


def configure(method: str, *, average: str = "uniform", **options: Any) -> Configuration:
    """A method with these options, and the method's defaults for the others.

    Options have the names that the optimizer of the same name gives them, and the same ranges;
    ``lr``, ``momentum`` and ``max_step`` may be a schedule of :mod:`heavystep.schedules`, which is
    checked at its first value. There is no ``lower_bound``: a simulated problem knows the infimum
    of each of its losses. ``loss_eps=None`` is that of float64.

    Args:
        method: name of a method, see ``heavystep methods``.
        average: ``"uniform"`` or ``"weighted"``; see :class:`Configuration`.
        options: options of the method.

    Raises:
        TypeError: the method has no such option, needs one, or one cannot follow a schedule.
        ValueError: the method is unknown or an option is out of range.

    >>> configure("SHBPolyak", momentum=0.5, scaling="theory")["steps_per_epoch"] is None
    True
    >>> configure("SHBPolyak", momentum=1.5)
    Traceback (most recent call last):
    ValueError: momentum (beta) must be in [0, 1), got 1.5
    """
    chosen = method_of(method)
    if "lower_bound" in options:
        raise TypeError(
            "lower_bound is no option of a simulation: the problem knows the infimum of each loss"
        )
    schedules = {name: value for name, value in options.items() if callable(value)}
    for name in schedules:
        if name not in SCHEDULED:
            allowed = ", ".join(SCHEDULED)
            raise TypeError(f"{name} cannot follow a schedule: only {allowed} can")
    firsts = {name: schedule.initial for name, schedule in schedules.items()}
    complete = {**chosen.complete({**options, **firsts}), **schedules}
    validation.choice("average", average, AVERAGES)
    known = [option for option in chosen.all_options if option.name != "lower_bound"]
    ordered = tuple((option.name, _plain(option, complete[option.name])) for option in known)
    configuration = Configuration(method, ordered, average)
    if average == "weighted" and not configuration.theory:
        raise ValueError(
            "average must be 'uniform': the weights of 'weighted' come from Theorem 6, which does "
            f"not cover {method}"
        )
    return configuration


def _plain(option: Option, value: Any) -> Any:
    """The value as a Python float or int, so that equal numbers are stored in one way."""
    if value is None or callable(value):
        return value
    if isinstance(option.allowed, validation.Interval):
        return float(value)
    return int(value) if isinstance(option.allowed, Whole) else value
