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
from heavystep.lab.figures.figure import (
    PROJECT,
    Claim,
    Curve,
    Figure,
    Panel,
    Statement,
    at_most,
    check_size,
)
from heavystep.lab.figures.measures import (
    DIMINISHING,
    LONG,
    Drawn,
    bound,
    ends,
    going_on,
    is_long,
    rate,
    ratios_to_bounds,
    settling,
    slopes,
    step_range,
)
from heavystep.lab.plot import COLOURS, entitle, grid, legend_below, named_lines, visible
from heavystep.lab.simulation.configuration import Configuration, configure
from heavystep.lab.simulation.sweep import SECTION_5, ProblemSpec, Results, Simulated, simulated
from heavystep.methods import METHODS
from heavystep.schedules import Schedules
from heavystep.theory import nonconvex_step_limit

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
SETTINGS = (
    ("convex, interpolation", SECTION_5["least squares"], BETAS),
    ("convex, beyond interpolation", SECTION_5["noisy least squares"], (0.9, DIMINISHING)),
    ("non-convex, strong growth", SECTION_5["cosine"], BETAS),
    ("non-convex, weak growth", SECTION_5["noisy cosine"], (0.9, DIMINISHING)),
)
"""Titles, problems, and the variants: a momentum of Section 2's rules, or Section 4's rules."""
results = simulated


def figures(
    *, seeds: int = 20, iterations: int = 1_000_000, panels: str = "a,b,c,d,e,f,g,h"
) -> list[Figure]:
    """The figure with some of its panels, this many runs for each curve and steps for each run."""
    check_size("seeds", seeds, 2)
    check_size("iterations", iterations, 1000)
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


SLOPE = -0.95
"""A curve decays like 1/k if its slope on log-log axes over the last decade is at most this."""
CONVERGED = 1e-6  # the last iterate converged if its metric fell below this part of its first value
SETTLED = -0.3
"""A curve has reached a neighbourhood if its slope over the last half decade is at least this."""
APART = 3.0  # by which factor a neighbourhood lies above a curve that goes on decreasing
STEP_ROUNDING = 1e-6
"""The rounding of a step; simulations look at step bounds where it is less than this."""
BOUND = Statement(
    "bound",
    "the mean less its standard error is below the theorem's bound at every k (ratio <= 1)",
    ratios_to_bounds,
    at_most(1.0),
)
STEPS = Statement(
    "steps",
    "every step is within the bounds of Lemma 2 or 5: gamma_min <= gamma_k <= gamma_max",
    step_range,
    lambda found: (
        found["least / gamma_min"] >= 1.0 - STEP_ROUNDING
        and found["most / gamma_max"] <= 1.0 + STEP_ROUNDING
    ),
    PROJECT,
)
INTERPOLATION = (
    BOUND,
    Statement(
        "rate", f"the mean decays at least like 1/k: slope over the last decade <= {SLOPE}",
        slopes, at_most(SLOPE),
    ),
    Statement(
        "last", f"the last iterate converges in every run: end / start <= {CONVERGED:g}",
        ends, at_most(CONVERGED), PROJECT,
    ),
    STEPS,
)  # fmt: skip
"""The claims about a panel whose variants all converge."""
SETTLES = Statement(
    "neighbourhood",
    f"{{what}} of the standard variant settles: slope over the last half decade >= {SETTLED}, at a "
    f"level within the theorem's neighbourhood and at least {APART:g} times where the diminishing "
    "variant ends{more}",
    settling,
    lambda found: (
        found["slope"] >= SETTLED
        and found["level"] <= found["predicted"]
        and found["times diminishing"] >= APART
    ),
)
GOES_ON = Statement(
    "diminishing",
    "the diminishing variant goes on: in every run it falls to half or less over the last "
    "decade, and the largest ends below the smallest of the standard variant",
    going_on,
    lambda found: (
        found["fall over the last decade"] <= 0.5 and found["largest / smallest standard"] < 1.0
    ),
)


BEYOND = (BOUND, SETTLES, GOES_ON, STEPS)
"""The claims about a panel with a diminishing variant."""


def claims(figure: Figure, results: Results) -> list[Claim]:
    """All claims of Figure 1, panel by panel."""
    found = list[Claim]()
    for panel in figure.panels:
        drawn = {curve.label: (curve, results[curve.run]) for curve in panel.curves}
        beyond = DIMINISHING in drawn
        words = what_settles(drawn) if beyond else {}
        statements = BEYOND if beyond else INTERPOLATION
        found += [each.claim(panel.name, drawn, **words) for each in statements]
    return found


def what_settles(drawn: Drawn) -> dict[str, str]:
    """Words for a panel: what is drawn settles, or in shorter runs the last iterate alone."""
    if is_long(drawn):
        return {"what": "what is drawn", "more": ""}
    fall = settling(drawn, whole=True)["slope"]
    more = f"slope {fall:.2f}: --iterations {LONG} shows where it settles"
    return {
        "what": "the last iterate", "more": f" (what is drawn still falls at this length, {more})"
    }  # fmt: skip


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
