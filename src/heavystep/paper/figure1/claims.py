"""What the paper claims about Figure 1, as predicates on the results."""

from collections.abc import Iterator

import numpy as np

from heavystep.arrays import Array
from heavystep.paper.claim import Claim
from heavystep.paper.figure1.bounds import bound, residual
from heavystep.paper.simulated import Curve, Figure, Panel
from heavystep.records import Trajectories
from heavystep.sweeps.runner import Results

SLOPE = -0.95
"""A curve decays like 1/k if its slope on log-log axes over the last decade is at most this."""
CONVERGED = 1e-6
"""The last iterate converged if its metric fell below this part of its first value."""
SETTLED = -0.3
"""A curve has reached a neighbourhood if its slope over the last half decade is at least this."""
APART = 3.0
"""By which factor a neighbourhood lies above a curve that goes on decreasing."""
VANISHED = -1000.0
"""The slope of a curve that has become 0."""
STEP_ROUNDING = 1e-6
"""The rounding of a step; simulations look at step bounds where it is less than this."""


def figure1_claims(figure: Figure, results: Results) -> list[Claim]:
    """All claims of Figure 1, panel by panel."""
    claims: list[Claim] = []
    for panel in figure.panels:
        runs = {curve: results[curve.run.key()] for curve in panel.curves}
        claims.append(_below_bound(panel, runs))
        if any(curve.diminishing for curve in panel.curves):
            claims += _neighbourhood(panel, runs)
        else:
            claims += [_rate(panel, runs), _last_iterate(panel, runs)]
        claims.append(_step_bounds(panel, runs))
    return claims


Runs = dict[Curve, Trajectories]


def _standard(runs: Runs) -> Iterator[tuple[Curve, Trajectories]]:
    return ((curve, result) for curve, result in runs.items() if not curve.diminishing)


def _below_bound(panel: Panel, runs: Runs) -> Claim:
    worst = {}
    for curve, result in _standard(runs):
        values = result.metrics[curve.metric]
        error = values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
        worst[curve.label] = float(
            ((values.mean(axis=0) - error) / bound(curve.run, result.k)).max()
        )
    text = "the mean less its standard error is below the theorem's bound at every k (ratio <= 1)"
    return Claim(f"{panel.id}.bound", text, _all_at_most(worst, 1.0), worst)


def _rate(panel: Panel, runs: Runs) -> Claim:
    slopes = {
        curve.label: slope(result.k, result.metrics[curve.metric].mean(axis=0), decades=1.0)
        for curve, result in runs.items()
    }
    text = f"the mean decays at least like 1/k: slope over the last decade <= {SLOPE}"
    return Claim(f"{panel.id}.rate", text, _all_at_most(slopes, SLOPE), slopes)


def _last_iterate(panel: Panel, runs: Runs) -> Claim:
    ratios = {}
    for curve, result in runs.items():
        last = _last_metric(curve, result)
        ratios[curve.label] = float((last[:, -1] / last[:, 0]).max())
    text = f"the last iterate converges in every run: end / start <= {CONVERGED:g}"
    return Claim(f"{panel.id}.last", text, _all_at_most(ratios, CONVERGED), ratios)


def _all_at_most(values: dict[str, float], limit: float) -> bool:
    """Whether all values are at most the limit; a maximum might pass over NaN."""
    return all(value <= limit for value in values.values())


def _last_metric(curve: Curve, result: Trajectories) -> Array:
    convex = curve.run.problem.build().convex
    return result.metrics["gap_last" if convex else "grad_last"]


def _neighbourhood(panel: Panel, runs: Runs) -> list[Claim]:
    (standard, settled), *_ = _standard(runs)
    diminishing, falling = next((c, r) for c, r in runs.items() if c.diminishing)
    level = _last_metric(standard, settled).mean(axis=0)
    flat = slope(settled.k, level, decades=0.5)
    size, predicted = float(level[-1]), residual(standard.run)
    values = falling.metrics[diminishing.metric]
    above = size / float(values[:, -1].max())
    stays = Claim(
        f"{panel.id}.neighbourhood",
        f"the last iterate of the standard variant settles: slope over the last half decade >= "
        f"{SETTLED}, at a level within the theorem's neighbourhood and at least {APART:g} times "
        "where the diminishing variant ends (the plotted average still falls towards it)",
        bool(flat >= SETTLED and size <= predicted and above >= APART),
        {"slope": flat, "level": size, "predicted": predicted, "times diminishing": above},
    )
    before = int(np.searchsorted(falling.k, falling.k[-1] / 10))
    fall = float((values[:, -1] / values[:, before]).max())
    ratio = float(values[:, -1].max() / settled.metrics[standard.metric][:, -1].min())
    goes_on = Claim(
        f"{panel.id}.diminishing",
        "the diminishing variant goes on: in every run it falls to half or less over the last "
        "decade, and the largest ends below the smallest of the standard variant",
        fall <= 0.5 and ratio < 1.0,
        {"fall over the last decade": fall, "largest / smallest standard": ratio},
    )
    return [stays, goes_on]


def _step_bounds(panel: Panel, runs: Runs) -> Claim:
    lowest = min(float(result.metrics["lowest"].min()) for result in runs.values())
    highest = max(float(result.metrics["highest"].max()) for result in runs.values())
    holds = lowest >= 1.0 - STEP_ROUNDING and highest <= 1.0 + STEP_ROUNDING
    text = "every step is within the bounds of Lemma 2 or 5: gamma_min <= gamma_k <= gamma_max"
    return Claim(
        f"{panel.id}.steps", text, holds, {"least / gamma_min": lowest, "most / gamma_max": highest}
    )


def slope(k: Array, values: Array, decades: float) -> float:
    """The slope of a least-squares line through log values, over the last ``decades`` of log k.

    Values that have become 0 have no logarithm, and their slope is :data:`VANISHED`.

    >>> round(slope(np.array([1.0, 10.0, 100.0]), np.array([5.0, 0.5, 0.05]), 2.0), 12)
    -1.0
    """
    window = k >= k[-1] / 10.0**decades
    if (values[window] <= 0.0).any():
        return VANISHED
    fit = np.polyfit(np.log10(k[window].astype(float)), np.log10(values[window]), 1)
    return float(fit[0])
