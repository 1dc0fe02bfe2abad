"""Configuration of a simulation: a method and its options, some of which may follow a schedule."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from heavystep import validation
from heavystep.arrays import Array
from heavystep.methods import Method, method_of
from heavystep.rules import Integers, Rule
from heavystep.theory.lemmas import smallest_step

EPS = float(np.finfo(np.float64).eps)
SCHEDULED = ("lr", "momentum", "max_step")  # the options that may change from step to step
AVERAGES = ("uniform", "weighted")
VERSION = 5
"""Part of the key of stored runs. Raise it when the same problem, method and seed give other
numbers because something changed: a rule, a momentum form, the order of operations in a kernel, the
stream of samples, what a metric means. Problems have versions of their own."""


class Parameters(NamedTuple):
    """Numbers that the method uses in consecutive steps.

    Args:
        constants: (steps, constants) the constants of the rule, in its order.
        lr: (steps,) outer multiplier eta_k.
        momentum: (steps,) momentum beta_k.
    """

    constants: Array
    lr: Array
    momentum: Array


@dataclass(frozen=True)
class Configuration:
    """A method of :mod:`heavystep.methods` with all its options; :func:`configure` makes one.

    It is hashable, and equal configurations give the same numbers.

    Args:
        options: names and values, complete and checked, in the order of signatures.
        average: which average of the iterates is measured: ``"uniform"`` is the mean of theta_0 ..
            theta_{k-1} (Theorem 2); ``"weighted"`` is that of theta_1 .. theta_k with the weights
            eta_m gamma_min,m (Theorem 6).
    """

    method: str
    options: tuple[tuple[str, Any], ...]
    average: str = "uniform"

    def __getitem__(self, name: str) -> Any:
        """The value of one option: a number, a word, None, or a schedule."""
        return dict(self.options)[name]

    @property
    def row(self) -> Method:
        return method_of(self.method)

    @property
    def rule(self) -> Rule:
        return self.row.rule

    @property
    def theory(self) -> str:
        """The name of the rule in :mod:`heavystep.theory`; empty if no theorem covers it."""
        return self.row.theory

    @property
    def diagonal(self) -> str | None:
        chosen: str | None = dict(self.options).get("diagonal", self.row.diagonal)
        return chosen

    @property
    def loss_eps(self) -> float:
        """Relative rounding error of the losses, which simulations compute in float64."""
        given = dict(self.options).get("loss_eps")
        return EPS if given is None else float(given)

    @property
    def scheduled(self) -> bool:
        """True if an option follows a schedule: a table has a row for each step, else one."""
        return any(callable(value) for _, value in self.options)

    def parameters(self, first: int, count: int) -> Parameters:
        """The constants, multipliers and momenta of the steps first .. first + count - 1."""
        columns, names = self._columns(first, count), self.rule.Constants._fields  # type: ignore[attr-defined]
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

    def step_bounds(self, L: float, first: int, count: int) -> tuple[Array, Array]:
        """(count,) gamma_min,k and gamma_max,k of Lemmas 2 and 5, before the multiplier.

        The first is NaN if no theorem covers the method, the second if it has no largest step.
        """
        columns, least = self._columns(first, count), np.nan
        has_most = "max_step" in self.rule.Constants._fields  # type: ignore[attr-defined]
        most = columns["max_step"] if has_most else np.nan
        if self.theory:
            c, omega, kappa = columns["c"], columns.get("decrease_factor"), columns["kappa"]
            least = smallest_step(self.theory, L=L, c=c, omega=omega, kappa=kappa, cap=most)
        return np.full(count, least, np.float64), np.full(count, most, np.float64)

    def _columns(self, first: int, count: int) -> dict[str, Any]:
        """Options and constants by name, those that follow a schedule as arrays over steps.

        Schedules are expanded before the rule makes constants of them, so that a constant that
        depends on one is computed by the same operations on every path.
        """
        options, k = dict(self.options), np.arange(first, first + count)
        for name in SCHEDULED:
            if callable(options.get(name)):
                options[name] = np.asarray(options[name](k), dtype=np.float64)
        return {**options, **self.rule.resolve(options)}


def configure(method: str, *, average: str = "uniform", **options: Any) -> Configuration:
    """A method with these options, and the method's defaults for the others.

    Options have the names and ranges that the optimizer of the same name gives them. ``lr``,
    ``momentum`` and ``max_step`` may be a schedule of :mod:`heavystep.schedules`, which is checked
    at its first value. There is no ``lower_bound``: a simulated problem knows the infimum of each
    of its losses. ``loss_eps=None`` is that of float64. :class:`Configuration` has ``average``.

    Raises:
        TypeError: the method has no such option, needs one, or one cannot follow a schedule.
        ValueError: the method is unknown or an option is out of range.

    >>> configure("SHBPolyak", momentum=0.5, scaling="theory")["steps_per_epoch"] is None
    True
    >>> configure("SHBPolyak", momentum=1.5)
    Traceback (most recent call last):
    ValueError: momentum (beta) must be in [0, 1), got 1.5
    """
    row = method_of(method)
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
    complete = {**row.complete({**options, **firsts}), **schedules}
    validation.choice("average", average, AVERAGES)
    if average == "weighted" and not row.theory:
        raise ValueError(
            "average must be 'uniform': the weights of 'weighted' come from Theorem 6, which does "
            f"not cover {method}"
        )
    ordered = []
    for option in row.all_options:
        value = complete[option.name]
        if value is not None and not callable(value):  # equal numbers are stored in one way
            if isinstance(option.allowed, validation.Interval):
                value = float(value)
            elif isinstance(option.allowed, Integers):
                value = int(value)
        if option.name != "lower_bound":
            ordered.append((option.name, value))
    return Configuration(method, tuple(ordered), average)
