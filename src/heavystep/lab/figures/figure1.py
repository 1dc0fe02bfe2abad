r"""Figure 1: Section 5's validation, panels (a)-(h).

What the paper leaves open, and our choice: rows of A are standard normal, epsilon is standard
normal projected off range(A) with ||epsilon||^2 = n; convex runs start at 0; 10^6 iterations;
metrics on a logarithmic grid of about 200 points, the running minimum over every iterate; f_i* of
the tilted non-convex loss is its exact minimum; the weights of the weighted average use gamma_min,k
of Lemma 5. Odd panels are SHB-PS, even ones SHB-ALS.
"""

from collections.abc import Iterator
from math import ceil
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from heavystep import validation
from heavystep.arrays import Array, square
from heavystep.lab.figures.figure import PAPER, PROJECT, Claim, Curve, Figure, Panel, size
from heavystep.lab.plot import COLOURS, entitle, grid, legend_below, named_lines, visible
from heavystep.lab.simulation.configuration import Configuration, configure
from heavystep.lab.simulation.sweep import ProblemSpec, Results, Simulated, simulated
from heavystep.methods import METHODS
from heavystep.records import Trajectories
from heavystep.schedules import Schedules
from heavystep.theory import convex, nonconvex, nonconvex_step_limit
from heavystep.theory.diminishing import DiminishingSteps

QUICK = {"seeds": 5, "iterations": 100_000}
BETAS = (0.5, 0.6, 0.7, 0.8, 0.9)
NO_RESET = {"steps_per_epoch": None, "growth": 1.0}
"""The growth has no effect without a smooth reset."""
CONSTANTS: dict[str, dict[str, Any]] = {
    "SHBPolyak": {"c": 0.75, **NO_RESET},
    "SHBArmijo": {
        "c": 0.75, "decrease_factor": 0.5, "max_trials": 10_000, "loss_eps": None, **NO_RESET,
    },
}  # fmt: skip
"""By method, the options that are the same in every panel."""
DIMINISHING = "diminishing"
SETTINGS = (
    ("convex, interpolation", ProblemSpec("least squares", 0.0), BETAS),
    ("convex, beyond interpolation", ProblemSpec("least squares", 0.3), (0.9, DIMINISHING)),
    ("non-convex, strong growth", ProblemSpec("cosine", "strong_growth"), BETAS),
    ("non-convex, weak growth", ProblemSpec("cosine", "noise"), (0.9, DIMINISHING)),
)
"""Titles, problems, and the variants: a momentum of Section 2's rules, or Section 4's rules."""
results = simulated


def figures(
    *, seeds: int = 20, iterations: int = 1_000_000, panels: str = "a,b,c,d,e,f,g,h"
) -> list[Figure]:
    """The figure with some of its panels, this many runs for each curve and steps for each run."""
    size("seeds", seeds, 2)
    size("iterations", iterations, 1000)
    wanted = [name.strip() for name in panels.split(",")]
    for name in wanted:
        validation.choice("panels", name, tuple("abcdefgh"))
    drawn: list[Panel] = []
    for title, problem, variants in SETTINGS:
        convex = problem.build().convex
        for method in CONSTANTS:
            name, place, curves = METHODS[method].title, "abcdefgh"[len(drawn)], []
            for variant in variants:
                label = variant if variant == DIMINISHING else f"beta = {variant:g}"
                # What theorems bound: of the non-convex variants theta_0 counts without schedules.
                metric = "best_after" if variant == DIMINISHING else "best"
                run = Simulated(problem, configured(problem, method, variant), seeds, iterations,
                                label=f"panel {place}, {name}, {label}")  # fmt: skip
                curves.append(Curve(label, run, "gap_average" if convex else metric))
            ylabel = r"$F(\bar\theta_k) - F^\star$" if convex else r"$\min\,\|\nabla F\|^2$"
            drawn.append(Panel(place, f"{name}, {title}", ylabel, tuple(curves)))
    shown = tuple(panel for panel in drawn if panel.name in wanted)
    return [Figure("figure1", "SHB with Polyak step size and Armijo line search", shown)]


def configured(problem: ProblemSpec, method: str, variant: Any) -> Configuration:
    """Section 2's rules with a constant momentum and cap, or Section 4's with schedules.

    gamma_max is 1, or 0.8 times the limit of Theorem 3. gamma_max,0 of a schedule is 0.02, or twice
    the constant cap at beta = 0.9.
    """
    built, constants, beta = problem.build(), CONSTANTS[method], variant
    diminishing = variant == DIMINISHING
    first = 0.02 if diminishing else 1.0
    if not built.convex:
        first = (1.6 if diminishing else 0.8) * nonconvex_step_limit(
            METHODS[method].theory, L=built.L, rho=built.rho, beta=0.9 if diminishing else beta,
            c=constants["c"], omega=constants.get("decrease_factor"),
        )  # fmt: skip
    if not diminishing:
        options = {"lr": 1.0, "momentum": beta, "max_step": first, "scaling": "theory"}
        return configure(method, **options, **constants)
    eta, law, gamma_max = Schedules.power_laws(0.5, 0.4, 0.9, 1.1, first, 0.3)
    options = {"lr": eta, "momentum": law, "max_step": gamma_max, "scaling": "plain"}
    return configure(method, average="weighted", **options, **constants)


def bound(run: Simulated, k: Any) -> Any:
    """The bound of Theorem 2 or 3 on the mean of a standard run's metric."""
    problem: Any = run.problem.build()
    options = dict(run.method.options)
    method: dict[str, Any] = {
        "rule": run.method.theory, "L": problem.L, "beta": options["momentum"], "c": options["c"],
        "gamma_max": options["max_step"], "omega": options.get("decrease_factor"),
    }  # fmt: skip
    if problem.convex:
        dist0_sq = float(square(problem.theta0 - problem.theta_star))
        return convex(**method, sigma2=problem.sigma2, dist0_sq=dist0_sq).bound(k)
    gap0 = float(problem.gap(problem.theta0))
    return nonconvex(**method, rho=problem.rho, delta=problem.delta, gap0=gap0).bound(k)


def rate(run: Simulated, k: Array) -> Array:
    """1 / S_k of Theorems 6 and 7, for a diminishing run."""
    method, options = run.method, dict(run.method.options)
    laws = Schedules(options["lr"], options["momentum"], options["max_step"])
    steps = DiminishingSteps(
        method.theory, run.problem.build().L, laws, options["c"], options.get("decrease_factor")
    )
    rates: Array = steps.rate(k)
    return rates


SLOPE = -0.95
"""A curve decays like 1/k if its slope on log-log axes over the last decade is at most this."""
CONVERGED = 1e-6  # the last iterate converged if its metric fell below this part of its first value
SETTLED = -0.3
"""A curve has reached a neighbourhood if its slope over the last half decade is at least this."""
APART = 3.0  # by which factor a neighbourhood lies above a curve that goes on decreasing
VANISHED = -1000.0  # the slope of a curve that has become 0
LONG = 10_000_000
"""From so many iterations on, what is drawn shows the neighbourhood itself: the mean of all
iterates forgets the way to it like 1/k."""
STEP_ROUNDING = 1e-6
"""The rounding of a step; simulations look at step bounds where it is less than this."""


def claims(figure: Figure, results: Results) -> list[Claim]:
    """All claims of Figure 1, panel by panel."""
    return [
        Claim(f"{panel.name}.{name}", text, bool(holds), measured, of)
        for panel in figure.panels
        for name, text, holds, measured, of in _claims_of(panel, results)
    ]


def _claims_of(panel: Panel, results: Results) -> Iterator[tuple[Any, ...]]:
    """Name, text, whether it holds, numbers, and who claims it."""
    runs = {curve.label: (curve, results[curve.run]) for curve in panel.curves}
    falling = runs.pop(DIMINISHING, None)
    convex = panel.curves[0].run.problem.build().convex
    last = {label: found.metrics["gap_last" if convex else "grad_last"]
            for label, (_, found) in runs.items()}  # fmt: skip
    means, worst = {}, {}
    for label, (curve, found) in runs.items():
        values = found.metrics[curve.metric]
        error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
        means[label] = found.k, values.mean(axis=0)
        worst[label] = float(((means[label][1] - error) / bound(curve.run, found.k)).max())
    text = "the mean less its standard error is below the theorem's bound at every k (ratio <= 1)"
    yield "bound", text, all(value <= 1.0 for value in worst.values()), worst, PAPER
    if falling is None:
        slopes = {label: slope(*mean, decades=1.0) for label, mean in means.items()}
        text = f"the mean decays at least like 1/k: slope over the last decade <= {SLOPE}"
        yield "rate", text, all(each <= SLOPE for each in slopes.values()), slopes, PAPER
        ends = {label: float((each[:, -1] / each[:, 0]).max()) for label, each in last.items()}
        text = f"the last iterate converges in every run: end / start <= {CONVERGED:g}"
        yield "last", text, all(each <= CONVERGED for each in ends.values()), ends, PROJECT
    else:
        ((label, standard),) = runs.items()
        yield from _beyond_interpolation(standard, last[label].mean(axis=0), falling)
    shown = [results[curve.run].metrics for curve in panel.curves]
    lowest = min(float(metrics["lowest"].min()) for metrics in shown)
    highest = max(float(metrics["highest"].max()) for metrics in shown)
    text = "every step is within the bounds of Lemma 2 or 5: gamma_min <= gamma_k <= gamma_max"
    holds = lowest >= 1.0 - STEP_ROUNDING and highest <= 1.0 + STEP_ROUNDING
    yield "steps", text, holds, {"least / gamma_min": lowest, "most / gamma_max": highest}, PROJECT


Drawn = tuple[Curve, Trajectories]


def _beyond_interpolation(
    standard: Drawn, level: Array, diminishing: Drawn
) -> Iterator[tuple[Any, ...]]:
    """The standard variant settles, the other one goes on; ``level`` is of the last iterate."""
    (curve, settled), (other, falling) = standard, diminishing
    shown, values = settled.metrics[curve.metric], falling.metrics[other.metric]
    whole = settled.k[-1] >= LONG
    level = shown.mean(axis=0) if whole else level
    flat, end = slope(settled.k, level, decades=0.5), float(level[-1])
    predicted = float(bound(curve.run, 10**15))  # its limit
    above = end / float(values[:, -1].max())
    text = (
        f"{'what is drawn' if whole else 'the last iterate'} of the standard variant settles: "
        f"slope over the last half decade >= {SETTLED}, at a level within the theorem's "
        f"neighbourhood and at least {APART:g} times where the diminishing variant ends"
    )
    if not whole:
        text += (
            " (what is drawn still falls at this length, slope "
            f"{slope(settled.k, shown.mean(axis=0), decades=0.5):.2f}: "
            f"--iterations {LONG} shows where it settles)"
        )
    holds = flat >= SETTLED and end <= predicted and above >= APART
    found = {"slope": flat, "level": end, "predicted": predicted, "times diminishing": above}
    yield "neighbourhood", text, holds, found, PAPER
    before = int(np.searchsorted(falling.k, falling.k[-1] / 10))
    fall = float((values[:, -1] / values[:, before]).max())
    ratio = float(values[:, -1].max() / shown[:, -1].min())
    text = (
        "the diminishing variant goes on: in every run it falls to half or less over the last "
        "decade, and the largest ends below the smallest of the standard variant"
    )
    found = {"fall over the last decade": fall, "largest / smallest standard": ratio}
    yield "diminishing", text, fall <= 0.5 and ratio < 1.0, found, PAPER


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


STYLES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
LOOKS = {f"beta = {beta:g}": look for beta, *look in zip(BETAS, COLOURS, STYLES, strict=True)}
"""Colour and line style of each variant: a momentum looks the same in each panel."""
LOOKS[DIMINISHING] = ["#000000", "-"]
LOWEST = 1e-40  # the lower end of a panel. Below it, a line that converges to 0 shows nothing new.


def pictures(figure: Figure, results: Results) -> dict[str, Canvas]:
    """The picture with all panels, four in a row."""
    rows, columns = ceil(len(figure.panels) / 4), min(len(figure.panels), 4)
    canvas = Canvas(figsize=(2.25 * columns, 2.3 * rows + 0.3), layout="constrained")
    axes = list(canvas.subplots(rows, columns, squeeze=False).flat)
    for unused in axes[len(figure.panels) :]:
        unused.set_axis_off()
    for ax, panel in zip(axes, figure.panels, strict=False):
        _panel(ax, panel, results)
    named = named_lines(axes)
    named["bound of the theorem"] = Line2D([], [], color="grey", linewidth=0.4)
    named["slope of 1/S_k (diminishing)"] = Line2D([], [], color="#000000", linewidth=0.4)
    legend_below(canvas, named, columns=len(named) if columns == 4 else columns)
    entitle(canvas, figure.headline())
    return {figure.name: canvas}


def _panel(ax: Any, panel: Panel, results: Results) -> None:
    """Means of the standard variants, the largest of the diminishing one, and what is proved."""
    ax.set_xscale("log")
    ax.set_yscale("log")
    for label, run, metric in panel.curves:
        found, (colour, style) = results[run], LOOKS[label]
        k, values = found.k, found.metrics[metric]
        if label == DIMINISHING:  # the theorem holds almost surely
            middle, label = values.max(axis=0), f"{label} (largest)"
            rates, anchor = rate(run, k), len(k) // 2
            promised = rates * (middle[anchor] / rates[anchor])  # O(1 / S_k) through the middle
        else:
            middle, promised = values.mean(axis=0), bound(run, k)
        ax.plot(k, visible(middle), label=label, linewidth=1.2, color=colour, linestyle=style)
        ax.plot(k, promised, color=colour, linewidth=0.4, alpha=0.8)
    ax.set_title(f"({panel.name}) " + panel.title.replace(", ", "\n", 1))
    ax.set_xlabel("k")
    ax.set_ylabel(panel.ylabel)
    grid(ax)
    if ax.get_ylim()[0] < LOWEST:
        highest = max(
            np.nanmax(line.get_ydata()) for line in ax.get_lines() if len(line.get_ydata())
        )
        ax.set_ylim(LOWEST, 10.0 * highest)
