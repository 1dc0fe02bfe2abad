r"""Figure 1: Section 5's validation, panels (a)-(h).

What the paper leaves open, and our choice: rows of A are standard normal, epsilon is standard
normal projected off range(A) with ||epsilon||^2 = n; convex runs start at 0; 10^6 iterations;
metrics on a logarithmic grid of about 200 points, the running minimum over every iterate; f_i* of
the tilted non-convex loss is its exact minimum; the weights of the weighted average use gamma_min,k
of Lemma 5. Odd panels are SHB-PS, even ones SHB-ALS.
"""

from math import ceil
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from heavystep import validation
from heavystep.arrays import Array
from heavystep.certificates.theorems import promise
from heavystep.lab.figures.figure import PROJECT, Claim, Curve, Figure, Panel, Reproducible, size
from heavystep.lab.plot import COLOURS, entitle, legend_below, named_lines, visible
from heavystep.lab.simulation.configuration import Configuration, configure
from heavystep.lab.simulation.sweep import ProblemSpec, Results, Simulated, simulated
from heavystep.methods import METHODS
from heavystep.records import Trajectories
from heavystep.schedules import Schedules
from heavystep.theory import nonconvex_step_limit
from heavystep.theory.diminishing import DiminishingSteps

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
METRICS = {
    (True, False): "gap_average",
    (True, True): "gap_average",
    (False, False): "best",
    (False, True): "best_after",
}
"""What theorems bound, by whether the problem is convex and whether the variant is diminishing."""
SETTINGS = (
    ("convex, interpolation", ProblemSpec("least squares", 0.0), BETAS, False),
    ("convex, beyond interpolation", ProblemSpec("least squares", 0.3), BETAS[-1:], True),
    ("non-convex, strong growth", ProblemSpec("cosine", "strong_growth"), BETAS, False),
    ("non-convex, weak growth", ProblemSpec("cosine", "noise"), BETAS[-1:], True),
)


def figure1(
    *, seeds: int = 20, iterations: int = 1_000_000, panels: str = "a,b,c,d,e,f,g,h"
) -> Figure:
    """The figure with some of its panels, this many runs for each curve and steps for each run."""
    size("seeds", seeds, 2)
    size("iterations", iterations, 1000)
    wanted = [name.strip() for name in panels.split(",")]
    for name in wanted:
        validation.choice("panels", name, tuple("abcdefgh"))
    drawn: list[Panel] = []
    for title, problem, betas, with_diminishing in SETTINGS:
        convex = problem.build().convex
        for method in CONSTANTS:
            name, place = METHODS[method].title, "abcdefgh"[len(drawn)]
            variants = {f"beta = {beta:g}": standard(problem, method, beta) for beta in betas}
            if with_diminishing:
                variants[DIMINISHING] = diminish(problem, method)
            curves = []
            for label, variant in variants.items():
                called = f"panel {place}, {name}, {label}"
                run = Simulated(problem, variant, seeds, iterations, label=called)
                diminishes = label == DIMINISHING
                style = 0 if diminishes else BETAS.index(variant["momentum"])
                curves.append(Curve(label, run, METRICS[convex, diminishes], diminishes, style))
            ylabel = r"$F(\bar\theta_k) - F^\star$" if convex else r"$\min\,\|\nabla F\|^2$"
            drawn.append(Panel(place, f"{name}, {title}", ylabel, tuple(curves)))
    shown = tuple(panel for panel in drawn if panel.id in wanted)
    return Figure("figure1", "SHB with Polyak step size and Armijo line search", shown)


def cap(problem: ProblemSpec, method: str, beta: float) -> float:
    """gamma_max of the standard variants: 1, or 0.8 times the limit of Theorem 3."""
    built, constants = problem.build(), CONSTANTS[method]
    if built.convex:
        return 1.0
    c, omega = constants["c"], constants.get("decrease_factor")
    theory = METHODS[method].theory
    return 0.8 * nonconvex_step_limit(theory, L=built.L, rho=built.rho, beta=beta, c=c, omega=omega)


def standard(problem: ProblemSpec, method: str, beta: float) -> Configuration:
    """Section 2's rules, with constant momentum and cap."""
    most = cap(problem, method, beta)
    return configure(
        method, lr=1.0, momentum=beta, max_step=most, scaling="theory", **CONSTANTS[method]
    )


def diminish(problem: ProblemSpec, method: str) -> Configuration:
    """Section 4's rules, with diminishing momentum, multiplier and cap.

    gamma_max,0 is 0.02, or twice the cap of the standard variant at beta = 0.9.
    """
    first = 0.02 if problem.build().convex else 2.0 * cap(problem, method, BETAS[-1])
    eta, beta, gamma_max = Schedules.power_laws(0.5, 0.4, 0.9, 1.1, first, 0.3)
    options = {"lr": eta, "momentum": beta, "max_step": gamma_max, "scaling": "plain"}
    return configure(method, average="weighted", **options, **CONSTANTS[method])


def bound(run: Simulated, k: Any) -> Any:
    """The bound of Theorem 2 or 3 on the mean of a standard run's metric."""
    problem: Any = run.problem.build()
    return promise(problem, run.method.theory, dict(run.method.options)).bound(k)


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
    found: list[Claim] = []
    for panel in figure.panels:
        runs = {curve: results[curve.run.key()] for curve in panel.curves}
        found.append(_below_bound(panel, runs))
        if any(curve.diminishing for curve in panel.curves):
            found += _neighbourhood(panel, runs)
        else:
            found += [_rate(panel, runs), _last_iterate(panel, runs)]
        found.append(_step_bounds(panel, runs))
    return found


Runs = dict[Curve, Trajectories]


def _below_bound(panel: Panel, runs: Runs) -> Claim:
    worst = {}
    for curve, result in runs.items():
        if curve.diminishing:
            continue
        values = result.metrics[curve.metric]
        error = values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
        ratios = (values.mean(axis=0) - error) / bound(curve.run, result.k)
        worst[curve.label] = float(ratios.max())
    text = "the mean less its standard error is below the theorem's bound at every k (ratio <= 1)"
    return Claim(f"{panel.id}.bound", text, all(value <= 1.0 for value in worst.values()), worst)


def _rate(panel: Panel, runs: Runs) -> Claim:
    slopes = {
        curve.label: slope(result.k, result.metrics[curve.metric].mean(axis=0), decades=1.0)
        for curve, result in runs.items()
    }
    text = f"the mean decays at least like 1/k: slope over the last decade <= {SLOPE}"
    return Claim(f"{panel.id}.rate", text, all(each <= SLOPE for each in slopes.values()), slopes)


def _last_iterate(panel: Panel, runs: Runs) -> Claim:
    ratios = {}
    for curve, result in runs.items():
        last = _last_metric(curve, result)
        ratios[curve.label] = float((last[:, -1] / last[:, 0]).max())
    text = f"the last iterate converges in every run: end / start <= {CONVERGED:g}"
    return Claim(
        f"{panel.id}.last",
        text,
        all(each <= CONVERGED for each in ratios.values()),
        ratios,
        PROJECT,
    )


def _last_metric(curve: Curve, result: Trajectories) -> Array:
    convex = curve.run.problem.build().convex
    return result.metrics["gap_last" if convex else "grad_last"]


def _neighbourhood(panel: Panel, runs: Runs) -> list[Claim]:
    standard, settled = next((c, r) for c, r in runs.items() if not c.diminishing)
    diminishing, falling = next((c, r) for c, r in runs.items() if c.diminishing)
    values = falling.metrics[diminishing.metric]
    if settled.k[-1] >= LONG:
        level = settled.metrics[standard.metric].mean(axis=0)
        text = "what is drawn of the standard variant settles"
    else:
        level = _last_metric(standard, settled).mean(axis=0)
        text = "the last iterate of the standard variant settles"
    flat = slope(settled.k, level, decades=0.5)
    size, predicted = float(level[-1]), float(bound(standard.run, 10**15))  # its limit
    above = size / float(values[:, -1].max())
    text += (
        f": slope over the last half decade >= {SETTLED}, at a level within the theorem's "
        f"neighbourhood and at least {APART:g} times where the diminishing variant ends"
    )
    if settled.k[-1] < LONG:
        drawn = slope(settled.k, settled.metrics[standard.metric].mean(axis=0), decades=0.5)
        text += (
            f" (what is drawn still falls at this length, slope {drawn:.2f}: "
            f"--iterations {LONG} shows where it settles)"
        )
    holds = bool(flat >= SETTLED and size <= predicted and above >= APART)
    found = {"slope": flat, "level": size, "predicted": predicted, "times diminishing": above}
    stays = Claim(f"{panel.id}.neighbourhood", text, holds, found)
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
    measured = {"least / gamma_min": lowest, "most / gamma_max": highest}
    return Claim(f"{panel.id}.steps", text, holds, measured, PROJECT)


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
BLACK = "#000000"
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
    named = named_lines(axes)  # a momentum looks the same in each panel
    named["bound of the theorem"] = Line2D([], [], color="grey", linewidth=0.4)
    named["slope of 1/S_k (diminishing)"] = Line2D([], [], color=BLACK, linewidth=0.4)
    legend_below(canvas, named, columns=len(named) if columns == 4 else columns)
    entitle(canvas, figure.headline())
    return {figure.name: canvas}


def _panel(ax: Any, panel: Panel, results: Results) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    for curve in panel.curves:
        result = results[curve.run.key()]
        k, values = result.k, result.metrics[curve.metric]
        if curve.diminishing:
            middle, label = values.max(axis=0), f"{curve.label} (largest)"
            colour, style = BLACK, STYLES[0]
            rates, anchor = rate(curve.run, k), len(k) // 2
            promised = rates * (middle[anchor] / rates[anchor])  # O(1 / S_k) through the middle
        else:
            middle, label = values.mean(axis=0), curve.label
            colour, style = COLOURS[curve.style], STYLES[curve.style]
            promised = bound(curve.run, k)
        ax.plot(k, visible(middle), label=label, linewidth=1.2, color=colour, linestyle=style)
        ax.plot(k, promised, color=colour, linewidth=0.4, alpha=0.8)
    ax.set_title(f"({panel.id}) " + panel.title.replace(", ", "\n", 1))
    ax.set_xlabel("k")
    ax.set_ylabel(panel.ylabel)
    ax.grid(visible=True, which="major", linewidth=0.3, alpha=0.6)
    if ax.get_ylim()[0] < LOWEST:
        highest = max(
            np.nanmax(line.get_ydata()) for line in ax.get_lines() if len(line.get_ydata())
        )
        ax.set_ylim(LOWEST, 10.0 * highest)


REPRODUCIBLE = Reproducible(
    figure1, simulated, pictures, claims, quick={"seeds": 5, "iterations": 100_000}
)
