"""Panels of a page: the runs on one problem, which are drawn at first, and their numbers."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from heavystep.methods import METHODS
from heavystep.report.described import labels, title_of
from heavystep.report.numbers import SUMMARY, summarised, thinned
from heavystep.report.reading import Part, Run

FIRST = ("gap_average", "loss", "metric", "test_loss")
"""Metrics that a panel shows at first, the first of them that there is."""
NOT_CONVEX = ("cosine",)
"""Problems on which theorems bound the gradient."""
MEANINGS = {
    "gap_average": "F(average) - F*", "gap_last": "F(last) - F*", "best": "least |grad F|² so far",
    "best_after": "least |grad F|² after the first", "grad_last": "|grad F(last)|²",
    "lowest": "least step / gamma_min", "highest": "largest step / gamma_max",
    "trials": "trials a step", "step": "step", "capped": "share of steps at the cap",
    "limited": "share of steps that growth limits", "loss": "loss",
}  # fmt: skip
MANY = 14
"""A panel with more curves than this draws the best one of each method at first."""
AT_FIRST = 8
"""How many of these."""


@dataclass(frozen=True)
class Panel:
    """The runs on one problem, in the order of the legend, and what they are called."""

    title: str
    runs: list[Run]
    labels: list[str]
    metric: str
    shown: list[bool]

    @property
    def metrics(self) -> list[str]:
        """All that any of the runs recorded."""
        return list(dict.fromkeys(name for run in self.runs for name in run.metrics))


def panels(part: Part) -> list[Panel]:
    """One panel for each problem of a part, or several if runs have different lengths."""
    groups: dict[tuple[str, int], list[Run]] = {}
    for run in part.runs:
        groups.setdefault((run.about.problem, run.about.length), []).append(run)
    problems = [problem for problem, _ in groups]
    return [
        _panel(problem if problems.count(problem) == 1 else f"{problem}, {length:,} steps", runs)
        for (problem, length), runs in sorted(groups.items())
    ]


def _panel(title: str, runs: list[Run]) -> Panel:
    named = labels(run.about for run in runs)
    known = list(METHODS)

    def place(number: int) -> tuple[int, str, list[str]]:
        method = runs[number].about.method
        at = known.index(method) if method in known else len(known)
        return at, method, named[number].split(", ")

    order = sorted(range(len(runs)), key=place)
    ordered = [runs[number] for number in order]
    metric = _first_metric(ordered[0])
    return Panel(title, ordered, [named[n] for n in order], metric, _shown(ordered, metric))


def _first_metric(run: Run) -> str:
    """What the theorems bound, or the loss."""
    if _name(run) in NOT_CONVEX and "best" in run.metrics:
        return "best"
    return next((name for name in (*FIRST, *run.metrics) if name in run.metrics), "")


def _name(run: Run) -> str:
    problem = run.about.content.get("problem")
    return str(problem.get("name")) if isinstance(problem, dict) else ""


def _shown(runs: list[Run], metric: str) -> list[bool]:
    if len(runs) <= MANY:
        return [True] * len(runs)
    best: dict[str, tuple[float, int]] = {}
    for number, run in enumerate(runs):
        end = final(run, metric)
        rank = (end if np.isfinite(end) else np.inf, number)
        best[run.about.method] = min(best.get(run.about.method, rank), rank)
    chosen = {number for _, number in sorted(best.values())[:AT_FIRST]}
    return [number in chosen for number in range(len(runs))]


def final(run: Run, metric: str) -> float:
    """The median over seeds of the last value; NaN if a run ends without one."""
    values = run.metrics.get(metric)
    return float("nan") if values is None or not values.size else float(np.median(values[:, -1]))


def panel_data(panel: Panel, *, summary: bool) -> tuple[dict[str, Any], bool]:
    """What the page's script draws, and whether curves were thinned for it.

    Args:
        panel: the runs.
        summary: whether seeds are left out for their median, least and largest.
    """
    curves, any_thinned = [], False
    for run, label, shown in zip(panel.runs, panel.labels, panel.shown, strict=True):
        values = summarised(run.metrics) if summary and len(run.seeds) > 3 else run.metrics
        kept = thinned(run.k, values)
        any_thinned |= kept.thinned
        curves.append(
            {
                "label": label,
                "paper": title_of(run.about.method),
                "shown": shown,
                "seeds": list(run.seeds) if values is run.metrics else list(SUMMARY),
                "k": kept.k,
                "metrics": kept.values,
            }
        )
    data = {
        "title": panel.title,
        "unit": panel.runs[0].about.unit,
        "metric": panel.metric,
        "metrics": {name: MEANINGS.get(name, name.replace("_", " ")) for name in panel.metrics},
        "curves": curves,
    }
    return data, any_thinned
