"""Runs with their problem: the constants and the quantities in the theorems."""

from typing import Any, NamedTuple

import numpy as np

from heavystep.arrays import Array, square
from heavystep.certificates.check import Check
from heavystep.certificates.path import SOME_REFUSED, Path
from heavystep.certificates.steps import least_steps
from heavystep.problems import FiniteSum
from heavystep.schedules import Schedules

ROUNDING = 1e-9
"""Relative rounding of a measured quantity that is a sum over the run."""
FEWEST_RUNS = 5
"""The standard error of fewer runs does not measure chance."""


class Measured(NamedTuple):
    """Runs with their problem.

    A method raises ValueError where the theorem that asks for its value does not apply. The
    message is the rest of a sentence that begins with the theorem's name.
    """

    path: Path
    problem: FiniteSum
    schedules: Schedules | None

    @property
    def rule(self) -> str:
        """The name of the rule, as theorems take it."""
        return self.path.record.rule

    def method(self) -> dict[str, Any]:
        """The arguments that Theorems 1-5 share."""
        record, beta = self.path.record, self.path.constant_beta
        if record.scaling != "theory":
            raise ValueError(f"is about scaling 'theory', the run used {record.scaling!r}")
        if beta is None or (record.gamma_max != record.gamma_max[0]).any():
            raise ValueError("is about constant momentum and gamma_max, here they change")
        if (record.eta != 1.0).any():
            raise ValueError(f"is about eta_k = 1, the run used {record.eta.min():g}")
        self._plain_run()
        return {
            "L": self.problem.L,
            "beta": beta,
            "c": record.c,
            "gamma_max": float(record.gamma_max[0]),
            "omega": record.omega,
        }

    def diminishing_method(self) -> dict[str, Any]:
        """The arguments that Theorems 6 and 7 share."""
        record = self.path.record
        if self.schedules is None:
            raise ValueError("needs the schedules: certify(record, problem, schedules=...)")
        k = np.arange(record.steps)
        for name, law in self.schedules._asdict().items():
            if not np.allclose(getattr(record, name), law(k), rtol=1e-12, atol=0.0):
                raise ValueError(f"the run's {name} is not the schedule that was given")
        self._plain_run()
        return {
            "L": self.problem.L,
            "schedules": self.schedules,
            "c": record.c,
            "omega": record.omega,
        }

    def _plain_run(self) -> None:
        """Refuse a run whose cap was not given, or in which a batch was refused."""
        if self.path.record.smooth_reset:
            raise ValueError("is about a cap that is given, the run used smooth reset")
        if not self.path.all_accepted:
            raise ValueError(SOME_REFUSED)

    def smallest_steps(self) -> Array:
        """(K,) eta_k gamma_min,k, the weights of the weighted average."""
        steps: Array = self.path.record.eta * least_steps(self.path.record, self.problem.L)
        return steps

    def convex(self) -> None:
        """Refuse a problem whose samples are not convex."""
        if not self.problem.convex:
            raise ValueError("is about convex samples, the problem's are not")

    def sigma2(self) -> float:
        """sigma^2 counted from the lower bounds that the rule used.

        A rule whose steps depend on them must have used the infima f*(x), or one number below
        all of them. For other rules it is the sigma^2 of the problem.
        """
        problem, record = self.problem, self.path.record
        low, exact = record.f_star, problem.f_star
        if not record.theory.uses_lower_bound:
            return problem.sigma2
        slack = self.path.rounding.loss
        if record.samples is not None and (abs(low - exact[record.samples]) <= slack).all():
            return problem.sigma2
        level = float(low.flat[0])
        if (low != level).any():
            raise ValueError("is about f*(x) or one lower bound, the run used others")
        if level > float(exact.min()) + float(slack.max()):
            raise ValueError(f"needs lower bounds <= f*(x), the run used {level:g}")
        return problem.sigma2 + max(0.0, float(exact.mean()) - level)

    def dist_sq(self) -> Array:
        """(R, K + 1) squared distances to theta*."""
        return square(self.path.iterates - self.problem.theta_star)

    def grad_sq(self) -> Array:
        """(R, K) squared norms of the full gradient at theta_0 .. theta_{K-1}."""
        return square(self.problem.full_gradient(self.path.before))

    def gap0(self) -> float:
        """F(theta_0) - F*."""
        return float(self.problem.gap(self.path.iterates[:, 0]).mean())

    def dist0_sq(self) -> float:
        """||theta_0 - theta*||^2."""
        return float(self.dist_sq()[:, 0].mean())

    def floor(self) -> float:
        """The squared distance by which rounding alone may move a point."""
        return float((self.path.rounding.point**2).max())


def in_expectation(
    result: str, quantity: str, k: Array, runs: Array, bound: Array, floor: float
) -> Check:
    """A check of the mean over runs (R, K), less its standard error.

    This is a statistical check. Runs that obey the theorem may fail it by chance where the bound
    is nearly attained, or where it depends on samples so rare that none was drawn.
    """
    if len(runs) < FEWEST_RUNS:
        raise ValueError(f"is about the mean over runs, which takes {FEWEST_RUNS}, got {len(runs)}")
    mean, error = runs.mean(axis=0), runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    return Check(result, quantity, k, mean - error, bound, ROUNDING * abs(bound) + floor)
