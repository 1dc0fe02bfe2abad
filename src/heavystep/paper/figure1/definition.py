r"""Figure 1: Section 5's validation, panels (a)-(h).

What the paper leaves open, and our choice: rows of A are standard normal, epsilon is standard
normal projected off range(A) with ||epsilon||^2 = n; convex runs start at 0; 10^6 iterations;
metrics on a logarithmic grid of about 200 points, the running minimum over every iterate; f_i* of
the tilted non-convex loss is its exact minimum; the weights of the weighted average use gamma_min,k
of Lemma 5. Odd panels are SHB-PS, even ones SHB-ALS.
"""

from typing import Any

from heavystep.methods import METHODS
from heavystep.paper.simulated import Curve, Figure, Panel
from heavystep.schedules import Schedules
from heavystep.simulation.configuration import Configuration, configure
from heavystep.sweeps.specification import ProblemSpec, RunSpec
from heavystep.theory import nonconvex_step_limit

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


def figure1(*, seeds: int = 20, iterations: int = 1_000_000) -> Figure:
    """The figure with this many runs for each curve, and this many steps for each run."""
    panels: list[Panel] = []
    for title, problem, betas, with_diminishing in SETTINGS:
        convex = problem.finite_sum().convex
        for method in CONSTANTS:
            name, place = METHODS[method].title, "abcdefgh"[len(panels)]
            variants = {f"beta = {beta:g}": standard(problem, method, beta) for beta in betas}
            if with_diminishing:
                variants[DIMINISHING] = diminish(problem, method)
            curves = []
            for label, variant in variants.items():
                called = f"panel {place}, {name}, {label}"
                run = RunSpec(problem, variant, seeds, iterations, label=called)
                diminishes = label == DIMINISHING
                style = 0 if diminishes else BETAS.index(variant["momentum"])
                curves.append(Curve(label, run, METRICS[convex, diminishes], diminishes, style))
            ylabel = r"$F(\bar\theta_k) - F^\star$" if convex else r"$\min\,\|\nabla F\|^2$"
            panels.append(Panel(place, f"{name}, {title}", ylabel, tuple(curves)))
    return Figure("figure1", "SHB with Polyak step size and Armijo line search", tuple(panels))


def cap(problem: ProblemSpec, method: str, beta: float) -> float:
    """gamma_max of the standard variants: 1, or 0.8 times the limit of Theorem 3."""
    built, constants = problem.finite_sum(), CONSTANTS[method]
    if built.convex:
        return 1.0
    limit = nonconvex_step_limit(
        METHODS[method].chosen({"scaling": "theory"}).theory,
        L=built.L,
        rho=built.rho,
        beta=beta,
        c=constants["c"],
        omega=constants.get("decrease_factor"),
    )
    return 0.8 * limit


def standard(problem: ProblemSpec, method: str, beta: float) -> Configuration:
    """Section 2's rules, with constant momentum and cap."""
    return configure(
        method,
        average="uniform",
        lr=1.0,
        momentum=beta,
        max_step=cap(problem, method, beta),
        scaling="theory",
        **CONSTANTS[method],
    )


def diminish(problem: ProblemSpec, method: str) -> Configuration:
    """Section 4's rules, with diminishing momentum, multiplier and cap.

    gamma_max,0 is 0.02, or twice the cap of the standard variant at beta = 0.9.
    """
    first = 0.02 if problem.finite_sum().convex else 2.0 * cap(problem, method, BETAS[-1])
    eta, beta, gamma_max = Schedules.power_laws(0.5, 0.4, 0.9, 1.1, first, 0.3)
    return configure(
        method,
        average="weighted",
        lr=eta,
        momentum=beta,
        max_step=gamma_max,
        scaling="plain",
        **CONSTANTS[method],
    )
