"""A recorded run with its problem: what the checks read of it, and what makes a record unusable.

Errors are what rounding may do. A computed loss or gradient is the exact one at another point, a
few eps away, up to rounding of the result itself. Smoothness bounds its error: moving the point by
e changes a loss by at most ||g|| e + L e^2 / 2 and a gradient by at most L e. Near a minimiser that
is far more than eps times the loss.
"""

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from heavystep import validation
from heavystep.arrays import Array, square
from heavystep.problems import FiniteSum
from heavystep.records import Record
from heavystep.rules import kappa
from heavystep.schedules import Schedules
from heavystep.theory.lemmas import smallest_step

ROUNDINGS = 64.0
"""Rounding errors allowed in a recorded number, in units of eps times its size: rounding at random
makes sqrt(n) of them in an inner product of n terms, here up to 4096."""


class Run:
    """A record, with the problem (or its L) and the schedules if they were given.

    It is refused unless its numbers are finite, fit each other and are the problem's. For a rule
    whose steps do not depend on lower bounds Lemma 1 holds with the exact infima, whatever bounds
    it was given: the record then has the infima as ``f_star``.

    A method raises ValueError where the result that asks for its value does not apply. The message
    is the rest of a sentence that begins with the name of the result.
    """

    def __init__(
        self, record: Record, problem: FiniteSum | None = None, *, L: Any = None,
        schedules: Schedules | None = None,
    ) -> None:  # fmt: skip
        self.record, self.given, self.schedules = record, problem, schedules
        self.L: float | None = getattr(L, "value", L) if problem is None else problem.L
        if self.L is not None:
            validation.real("L", self.L, validation.POSITIVE)
        self.note = " (estimated L)" if hasattr(L, "value") else ""
        self.k = np.arange(record.steps)
        self.iterates: Any = record.iterates  # theta_0 .. theta_K, or None
        self.before: Any = None if self.iterates is None else self.iterates[:, :-1]
        self._check_numbers()
        if problem is not None:
            self._check_problem(problem)

    def _check_numbers(self) -> None:
        """Refuse what is not finite, or does not fit."""
        record = self.record
        for name in ("gamma", "loss", "grad_sqnorm", "iterates", "gradients"):
            values = getattr(record, name)
            if values is not None:  # comparisons would overlook NaN
                finite = np.isfinite(values).reshape(*values.shape[:2], -1).all(axis=-1)
                used = record.accepted if name != "iterates" else True
                _refuse(~finite & used, f"{name} is not finite", "nothing to certify")
        if record.gradients is not None:
            squares = square(record.gradients)
            allowed = self.unit * squares + ROUNDINGS * record.tiny
            wrong = record.accepted & (abs(record.grad_sqnorm - squares) > allowed)
            what = "grad_sqnorm is not that of the recorded gradient"
            _refuse(wrong, what, "nothing to certify")

    def _check_problem(self, problem: FiniteSum) -> None:
        """Refuse a record of another problem, as far as it shows."""
        record, samples = self.record, self.record.samples
        dim = problem.dim if self.iterates is None else self.iterates.shape[-1]
        if dim != problem.dim:
            found = f"the record has points of {dim} numbers"
            raise ValueError(f"{found}, the problem has {problem.dim} parameters")
        if samples is None:
            return
        if not np.issubdtype(samples.dtype, np.integer):
            raise TypeError(f"samples must be whole numbers, got {samples.dtype}")
        outside = (samples < 0) | (samples >= problem.n)
        _refuse(outside, "samples name no term", f"the problem has {problem.n} terms")
        if not record.theory.uses_lower_bound:
            self.record = record = replace(record, f_star=problem.f_star[samples])
        if self.iterates is None:
            return
        other = "was it run on another problem?"
        losses = problem.losses(self.before, samples)
        wrong = record.accepted & (abs(record.loss - losses) > self.loss_error)
        _refuse(wrong, "loss is not the problem's", other)
        if record.gradients is not None:
            off = record.gradients - problem.gradients(self.before, samples)
            allowed = self.unit * np.sqrt(record.grad_sqnorm)
            allowed = allowed + problem.L * self.point_error[:, :-1] + record.tiny
            wrong = record.accepted & (np.linalg.norm(off, axis=-1) > allowed)
            _refuse(wrong, "gradient is not the problem's", other)

    @property
    def problem(self) -> FiniteSum:
        """The problem, which a check needs."""
        if self.given is None:
            raise ValueError("needs the problem and its constants")
        return self.given

    @property
    def beta(self) -> float | None:
        """The momentum, or None if it changes."""
        beta = self.record.beta
        return float(beta[0]) if (beta == beta[0]).all() else None

    def constant_momentum(self) -> float:
        """The momentum of every step; runs where it changes or stops are refused."""
        self.every_batch_used()
        if self.beta is None:
            raise ValueError("is about constant momentum, here it changes")
        return self.beta

    def every_batch_used(self) -> None:
        """Refuse runs with refused batches, which stop the momentum for one step."""
        if not self.record.accepted.all():
            raise ValueError("is about runs in which every batch was used, some were refused")

    def given_caps(self) -> None:
        """Refuse runs whose steps depend on more than caps that are given."""
        if self.record.smooth_reset:
            raise ValueError("is about a cap that is given, the run used smooth reset")
        self.every_batch_used()

    def convex(self) -> None:
        """Refuse a problem whose samples are not convex."""
        if not self.problem.convex:
            raise ValueError("is about convex samples, the problem's are not")

    @property
    def unit(self) -> float:
        """Relative error of a single number."""
        return ROUNDINGS * self.record.eps

    @cached_property
    def point_error(self) -> Array:
        """(R, K + 1) error of the points at which losses and gradients were taken; 0 if unknown."""
        if self.iterates is None:
            return np.zeros((self.record.runs, self.record.steps + 1))
        # Where the optimum is not known, the start shows how large the problem's data are.
        centre = self.iterates[:, :1] if self.given is None else self.given.theta_star
        size: Array = np.linalg.norm(self.iterates, axis=-1) + np.linalg.norm(centre, axis=-1)
        return self.unit * size

    @cached_property
    def loss_error(self) -> Array:
        """(R, K) error of the recorded losses and of their infima."""
        record, point = self.record, self.point_error[:, :-1]
        low = np.where(np.isfinite(record.f_star), record.f_star, 0.0)
        moved = np.sqrt(record.grad_sqnorm) * point + (self.L or 0.0) / 2 * point**2
        error: Array = self.unit * (abs(record.loss) + abs(low)) + moved + ROUNDINGS * record.tiny
        return error

    def floor(self) -> float:
        """The squared distance by which rounding alone may move a point."""
        return float((self.point_error**2).max())

    @cached_property
    def kappas(self) -> Array:
        """(K,) kappa of the scaling."""
        return np.array([kappa(self.record.scaling, float(beta)) for beta in self.record.beta])

    def least_steps(self) -> Array:
        """(K,) gamma_min,k of Lemmas 2 and 5."""
        if self.L is None:
            raise ValueError("needs the problem or its L")
        rule, c, omega, cap = (getattr(self.record, n) for n in ("rule", "c", "omega", "gamma_max"))
        least: Array = smallest_step(rule, L=self.L, c=c, omega=omega, kappa=self.kappas, cap=cap)
        return least

    def dist_sq(self) -> Array:
        """(R, K + 1) squared distances to theta*."""
        return square(self.iterates - self.problem.theta_star)

    def grad_sq(self, points: Array) -> Array:
        """(R, ...) squared norms of the full gradient."""
        return square(self.problem.full_gradient(points))


def _refuse(where: Array, what: str, why: str) -> None:
    if where.any():
        row, k = (int(i[0]) for i in np.nonzero(where))
        raise ValueError(f"{what} in run {row} at step {k}: {why}")
