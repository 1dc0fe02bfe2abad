"""The time that solvers of the same problem need to come near the best training loss.

A solver is run from scratch with larger and larger budgets of epochs, and the least budget whose
loss is near enough counts. Only ``fit`` is timed. One function evaluates the loss for all solvers.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from heavystep.bench.linear_data import Task
from heavystep.bench.linear_solvers import OURS, REFERENCE, Solver, fitted
from heavystep.bench.timing import RUNS_A_TURN, interleaved, one_thread, seconds_of

TOLERANCES = (0.01, 0.001)
"""How far a loss may be above the best known one, as a part of it; the smallest comes last."""
MOST_EPOCHS = 10_000
LONGEST, SHORTEST, PATIENCE = 10.0, 0.25, 10.0
"""A solver gets no larger budget after a fit that took more than LONGEST seconds, or more than
PATIENCE times the fastest solver so far; the latter only if it also took SHORTEST seconds."""

STEADY_SECONDS, MOST_TURNS = 6.0, 20
"""Short fits are timed in more turns, up to this time and number, to make close calls safe."""


class Fit(NamedTuple):
    """What a solver reached with a budget."""

    budget: int
    seconds: float
    loss: float


class Outcome(NamedTuple):
    """The results of one solver on one data set."""

    fits: list[Fit]
    """All budgets that were tried, each once."""
    reached: dict[float, Fit]
    """By tolerance, the least budget that reached it, with its shortest time."""

    @property
    def gave_up(self) -> float:
        """The time of the longest fit, in seconds."""
        return max(fit.seconds for fit in self.fits)


class Comparison(NamedTuple):
    """The results of all solvers on one data set."""

    n: int
    best: float
    """The least loss that any solver found."""
    outcomes: dict[str, Outcome]

    def fastest(self, tolerance: float, without: str = "") -> str | None:
        """The solver that came within a tolerance first; ``without`` names one that is left out."""
        times = {
            name: outcome.reached[tolerance].seconds
            for name, outcome in self.outcomes.items()
            if tolerance in outcome.reached and name != without
        }
        return min(times, key=times.__getitem__, default=None)

    def ratio(self, name: str, tolerance: float) -> float:
        """The time of a solver over that of the fastest of scikit-learn's; NaN if there is none."""
        first = self.fastest(tolerance, without=OURS)
        if first is None:
            return float("nan")
        base = self.outcomes[first].reached[tolerance].seconds
        return self.outcomes[name].reached[tolerance].seconds / base


def budgets() -> Iterator[int]:
    """Budgets, each about 1.6 times the one before, up to MOST_EPOCHS.

    >>> list(budgets())[:7]
    [1, 2, 3, 5, 8, 13, 21]
    """
    last, now = 1, 1
    while now <= MOST_EPOCHS:
        yield now
        last, now = now, last + now


def compare(task: Task, solvers: Mapping[str, Solver], repeats: int) -> Comparison:
    """Run every solver on one core until it comes within the smallest tolerance, or takes too long.

    Args:
        task: the problem.
        solvers: by name; they should have run before, so that no compilation is timed.
        repeats: least number of turns in which the budgets that count are timed once more.
    """
    problem = task.problem
    with one_thread():
        best = _loss(task, fitted(REFERENCE(problem.n), task.matrix, problem.y))
        limit, fits = LONGEST, {}
        for name, solver in solvers.items():
            goal = best * (1.0 + TOLERANCES[-1])
            fits[name] = _fits(task, solver, goal, limit)
            last = fits[name][-1]
            best = min(best, *(fit.loss for fit in fits[name]))
            if last.loss <= goal:
                limit = min(limit, max(SHORTEST, PATIENCE * last.seconds))
        least = {name: _least_budgets(fits[name], best) for name in fits}
        times = _retimed(task, solvers, least, repeats)
    outcomes = {
        name: Outcome(
            fits[name],
            {
                tolerance: fit._replace(seconds=times[f"{name} {fit.budget}"])
                for tolerance, fit in least[name].items()
            },
        )
        for name in fits
    }
    return Comparison(problem.n, best, outcomes)


def _loss(task: Task, estimator: Any) -> float:
    return float(task.problem.objective(np.ravel(estimator.coef_)))


def _fits(task: Task, solver: Solver, goal: float, limit: float) -> list[Fit]:
    """Fits with growing budgets, up to the goal for the loss or the limit of the time."""
    found: list[Fit] = []
    n, y = task.problem.n, task.problem.y
    for budget in budgets():
        estimator = solver.make(n, budget)
        seconds = seconds_of(partial(fitted, estimator, task.matrix, y))
        found.append(Fit(budget, seconds, _loss(task, estimator)))
        if found[-1].loss <= goal or seconds > limit:
            break
    return found


def _least_budgets(fits: list[Fit], best: float) -> dict[float, Fit]:
    """By tolerance, the first fit that came within it."""
    first = {}
    for tolerance in TOLERANCES:
        near = [fit for fit in fits if fit.loss <= best * (1.0 + tolerance)]
        if near:
            first[tolerance] = near[0]
    return first


def _retimed(
    task: Task,
    solvers: Mapping[str, Solver],
    least: Mapping[str, Mapping[float, Fit]],
    repeats: int,
) -> dict[str, float]:
    """The shortest times of the budgets that count, by the name of solver and budget."""
    jobs, turn = {}, 0.0
    for name, fits in least.items():
        for fit in set(fits.values()):
            make = partial(solvers[name].make, task.problem.n, fit.budget)
            jobs[f"{name} {fit.budget}"] = partial(_job, task, make)
            turn += RUNS_A_TURN * fit.seconds
    affordable = STEADY_SECONDS / turn if turn else 0.0
    return interleaved(jobs, max(repeats, int(min(affordable, MOST_TURNS))))


def _job(task: Task, make: Any) -> Any:
    return partial(fitted, make(), task.matrix, task.problem.y)


def wins(comparisons: list[Comparison], name: str, tolerance: float) -> str:
    """On how many sets a solver was the fastest of all, such as "3 of 6"."""
    return f"{sum(each.fastest(tolerance) == name for each in comparisons)} of {len(comparisons)}"
