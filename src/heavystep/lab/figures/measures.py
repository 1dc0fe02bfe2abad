"""Numbers that claims and tables are made of: bounds, slopes, areas, means over seeds."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import stdtrit

from heavystep.arrays import Array, square
from heavystep.lab.figures.figure import Curve
from heavystep.records import Trajectories
from heavystep.schedules import Schedules
from heavystep.theory import convex, nonconvex
from heavystep.theory.diminishing import DiminishingSteps


def mean_and_half_width(values: Array) -> tuple[Array, Array]:
    r"""The mean over seeds, and half the width of its 95% confidence interval.

    .. math:: \bar v \pm t_{0.975,\,S-1}\, s / \sqrt S

    with S seeds, their standard deviation s and the quantile t of Student's distribution. Of
    (seeds, ...) values it returns two arrays (...). The half-width of one seed alone is NaN.

    >>> mean, half_width = mean_and_half_width(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    >>> float(mean), round(float(half_width), 6)
    (3.0, 1.963243)
    """
    seeds = len(values)
    if seeds == 1:
        return values[0], np.full_like(values[0], np.nan)
    return values.mean(axis=0), float(stdtrit(seeds - 1, 0.975)) * standard_error(values)


def standard_error(values: Array) -> Array:
    """The standard error of the mean over seeds: (seeds, ...) gives (...)."""
    error: Array = values.std(axis=0, ddof=1) / math.sqrt(len(values))
    return error


def log_loss(result: Trajectories) -> Array:
    """log10 of the mean loss over seeds; 0 counts as the least float, so that means are finite."""
    mean: Array = result.metrics["loss"].mean(axis=0)
    return np.log10(np.maximum(mean, np.finfo(np.float64).tiny))


# Of Figure 1. The curves of a panel, with their results, are given by label.

DIMINISHING = "diminishing"
"""The label of Section 4's variant; the others have a constant momentum and cap."""
VANISHED = -1000.0
"""The slope of a curve that has become 0, whose logarithm has none: with interpolation the mean gap
or gradient is exactly 0 from some step on. Any slope of a curve above 0 is far larger."""
Drawn = Mapping[str, tuple[Curve, Trajectories]]


def bound(run: Any, k: Any) -> Any:
    """The bound of Theorem 2 or 3 on the mean of a standard run's metric."""
    problem, options = run.problem.build(), dict(run.method.options)
    method: dict[str, Any] = {
        "rule": run.method.theory, "L": problem.L, "beta": options["momentum"], "c": options["c"],
        "gamma_max": options["max_step"], "omega": options.get("decrease_factor"),
    }  # fmt: skip
    if problem.convex:
        dist0_sq = float(square(problem.theta0 - problem.theta_star))
        return convex(**method, sigma2=problem.sigma2, dist0_sq=dist0_sq).bound(k)
    gap0 = float(problem.gap(problem.theta0))
    return nonconvex(**method, rho=problem.rho, delta=problem.delta, gap0=gap0).bound(k)


def rate(run: Any, k: Array) -> Array:
    """1 / S_k of Theorems 6 and 7, for a diminishing run."""
    method, options = run.method, dict(run.method.options)
    laws = Schedules(options["lr"], options["momentum"], options["max_step"])
    steps = DiminishingSteps(
        method.theory, run.problem.build().L, laws, options["c"], options.get("decrease_factor")
    )
    rates: Array = steps.rate(k)
    return rates


def slope(k: Array, values: Array, decades: float) -> float:
    """The slope of a least-squares line through log values, over the last ``decades`` of log k.

    It is :data:`VANISHED` if a value there is 0.

    >>> round(slope(np.array([1.0, 10.0, 100.0]), np.array([5.0, 0.5, 0.05]), 2.0), 12)
    -1.0
    """
    window = k >= k[-1] / 10.0**decades
    if (values[window] <= 0.0).any():
        return VANISHED
    fit = np.polyfit(np.log10(k[window].astype(float)), np.log10(values[window]), 1)
    return float(fit[0])


def standard(drawn: Drawn) -> Drawn:
    """The curves without the diminishing one."""
    return {label: each for label, each in drawn.items() if label != DIMINISHING}


def last_iterate(curve: Curve, result: Trajectories) -> Array:
    """(seeds, G) what theorems bound, at the last iterate."""
    convex = curve.run.problem.build().convex
    return result.metrics["gap_last" if convex else "grad_last"]


def ratios_to_bounds(drawn: Drawn) -> dict[str, float]:
    """The largest ratio over k of the mean, less its standard error, to the theorem's bound."""
    found = {}
    for label, (curve, result) in standard(drawn).items():
        values = result.metrics[curve.metric]
        least = values.mean(axis=0) - standard_error(values)
        found[label] = float((least / bound(curve.run, result.k)).max())
    return found


def slopes(drawn: Drawn) -> dict[str, float]:
    """The slope of each mean over the last decade."""
    return {label: slope(result.k, result.metrics[curve.metric].mean(axis=0), decades=1.0)
            for label, (curve, result) in drawn.items()}  # fmt: skip


def ends(drawn: Drawn) -> dict[str, float]:
    """End / start of the last iterate, the largest of all runs."""
    last = {label: last_iterate(*each) for label, each in drawn.items()}
    return {label: float((each[:, -1] / each[:, 0]).max()) for label, each in last.items()}


def step_range(drawn: Drawn) -> dict[str, float]:
    """The least and the largest step, in units of their bounds."""
    metrics = [result.metrics for _, result in drawn.values()]
    return {
        "least / gamma_min": min(float(each["lowest"].min()) for each in metrics),
        "most / gamma_max": max(float(each["highest"].max()) for each in metrics),
    }


LONG = 10_000_000
"""From so many iterations on, what is drawn shows the neighbourhood itself: the mean of all
iterates forgets the way to it like 1/k."""


def is_long(drawn: Drawn) -> bool:
    """True if what is drawn has settled; in shorter runs only the last iterate has."""
    return all(result.k[-1] >= LONG for _, result in drawn.values())


def settling(drawn: Drawn, whole: bool = False) -> dict[str, float]:
    """The level at which the standard variant settles; the predicted one is the bound's limit.

    Of long or ``whole`` runs it is that of what is drawn, else that of the last iterate.
    """
    ((curve, result),) = standard(drawn).values()
    other, falling = drawn[DIMINISHING]
    whole = whole or is_long(drawn)
    shown = result.metrics[curve.metric] if whole else last_iterate(curve, result)
    level = shown.mean(axis=0)
    end = float(level[-1])
    return {
        "slope": slope(result.k, level, decades=0.5),
        "level": end,
        "predicted": float(bound(curve.run, 10**15)),
        "times diminishing": end / float(falling.metrics[other.metric][:, -1].max()),
    }


def going_on(drawn: Drawn) -> dict[str, float]:
    """How the diminishing variant falls, the worst of its runs, and where it ends."""
    ((curve, result),) = standard(drawn).values()
    other, falling = drawn[DIMINISHING]
    values, k = falling.metrics[other.metric], falling.k
    before = int(np.searchsorted(k, k[-1] / 10))
    least = result.metrics[curve.metric][:, -1].min()
    return {
        "fall over the last decade": float((values[:, -1] / values[:, before]).max()),
        "largest / smallest standard": float(values[:, -1].max() / least),
    }


# Of Figure 2.


def over_steps(result: Trajectories, values: Array) -> Array:
    """The mean over the steps of values recorded on the grid: (..., G) gives (...)."""
    mean: Array = np.average(values, axis=-1, weights=np.diff(result.k, prepend=0))
    return mean


def final_loss(result: Trajectories) -> float:
    """The mean over seeds of the last loss recorded."""
    return float(result.metrics["loss"][:, -1].mean())


def area(result: Trajectories) -> float:
    """The mean over the iterations of log10 of the mean loss."""
    return float(over_steps(result, log_loss(result)))


def ratio(loss: float, other: float) -> float:
    """The ratio of two losses; NaN where the other one is not positive."""
    return loss / other if other > 0.0 else math.nan


Pairs = Mapping[str, tuple[Trajectories, Trajectories]]  # with and without momentum, by data set


def gains(pairs: Pairs) -> dict[str, float]:
    """The difference of the areas on each data set, and on how many it is below 0."""
    found = {name: area(one) - area(other) for name, (one, other) in pairs.items()}
    faster = sum(gain < 0.0 for gain in found.values())
    return {**found, "faster on": float(faster), "of": float(len(pairs))}


def ratios_at_the_end(pairs: Pairs) -> dict[str, float]:
    """The ratio of the final losses on each data set; of those that decide, how many are below 1.

    A data set decides if the 95% intervals of the two losses do not overlap.
    """
    found = {name: ratio(*map(final_loss, pair)) for name, pair in pairs.items()}
    apart = []
    for name, pair in pairs.items():
        last = (mean_and_half_width(each.metrics["loss"][:, -1]) for each in pair)
        (mean, width), (other_mean, other_width) = last
        if abs(mean - other_mean) > width + other_width:
            apart.append(name)
    lower = sum(found[name] < 1.0 for name in apart)
    return {**found, "lower on": float(lower), "of": float(len(apart))}


# Of Figure 3.

LAST = 10
"""Final numbers are means over the last tenth of the epochs, because one epoch alone is noisy."""


def last_tenth(values: Array) -> Array:
    """The mean over the last tenth of the epochs, at least one: (seeds, epochs) gives (seeds,).

    >>> last_tenth(np.arange(25.0)[None]).tolist()
    [23.5]
    """
    mean: Array = values[:, -max(values.shape[1] // LAST, 1) :].mean(axis=1)
    return mean


def final(result: Trajectories, metric: str) -> float:
    """The mean of a metric over seeds and the last tenth of the epochs."""
    return float(last_tenth(result.metrics[metric]).mean())


def best_accuracy(result: Trajectories) -> float:
    """The largest over the epochs of the mean test accuracy."""
    return float(result.metrics["test_accuracy"].mean(axis=0).max())


def first_epoch(result: Trajectories, accuracy: float) -> float:
    """The first epoch with a mean test accuracy of at least ``accuracy``; infinity if none has."""
    reached = result.metrics["test_accuracy"].mean(axis=0) >= accuracy
    return float(result.k[np.argmax(reached)]) if reached.any() else math.inf
