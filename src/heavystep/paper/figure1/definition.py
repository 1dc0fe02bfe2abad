r"""Figure 1: Section 5's validation, panels (a)-(h).

What the paper leaves open, and our choice: rows of A are standard normal, epsilon is standard
normal projected off range(A) with ||epsilon||^2 = n; convex runs start at 0; 10^6 iterations;
metrics on a logarithmic grid of about 200 points, the running minimum over every iterate; f_i* of
the tilted non-convex loss is its exact minimum; the weights of the weighted average use gamma_min,k
of Lemma 5. Odd panels are SHB-PS, even ones SHB-ALS.
"""

from heavystep.paper.simulated import Curve, Figure, Panel
from heavystep.schedules import Schedules
from heavystep.simulation.method import Method
from heavystep.sweeps.specification import ProblemSpec, RunSpec
from heavystep.theory import nonconvex_step_limit

C, OMEGA = 0.75, 0.5
BETAS = (0.5, 0.6, 0.7, 0.8, 0.9)
RULES = {"polyak": "SHB-PS", "armijo": "SHB-ALS"}
SETTINGS = (
    ("convex, interpolation", ProblemSpec("least squares", 0.0), BETAS, False),
    ("convex, beyond interpolation", ProblemSpec("least squares", 0.3), BETAS[-1:], True),
    ("non-convex, strong growth", ProblemSpec("cosine", "strong_growth"), BETAS, False),
    ("non-convex, weak growth", ProblemSpec("cosine", "noise"), BETAS[-1:], True),
)


def figure1(*, seeds: int = 20, iterations: int = 1_000_000) -> Figure:
    """The figure with this many runs a curve and steps a run."""
    panels: list[Panel] = []
    for title, problem, betas, diminishing in SETTINGS:
        for rule, name in RULES.items():
            methods = {f"beta = {beta:g}": standard(problem, rule, beta) for beta in betas}
            if diminishing:
                methods["diminishing"] = diminish(problem, rule)
            curves = tuple(
                Curve(label, RunSpec(problem, method, seeds, iterations), metric(method, problem),
                      diminishing=label == "diminishing", style=_style(method))
                for label, method in methods.items()
            )  # fmt: skip
            convex = problem.finite_sum().convex
            ylabel = r"$F(\bar\theta_k) - F^\star$" if convex else r"$\min\,\|\nabla F\|^2$"
            panels.append(Panel("abcdefgh"[len(panels)], f"{name}, {title}", ylabel, curves))
    return Figure("figure1", "SHB with Polyak step size and Armijo line search", tuple(panels))


def _style(method: Method) -> int:
    return BETAS.index(method.beta) if isinstance(method.beta, float) else 0


def omega_of(rule: str) -> float | None:
    """Only the line search backtracks."""
    return OMEGA if rule == "armijo" else None


def cap(problem: ProblemSpec, rule: str, beta: float) -> float:
    """gamma_max of the standard variants: 1, or 0.8 times the limit of Theorem 3."""
    built = problem.finite_sum()
    if built.convex:
        return 1.0
    limit = nonconvex_step_limit(
        rule, L=built.L, rho=built.rho, beta=beta, c=C, omega=omega_of(rule)
    )
    return 0.8 * limit


def standard(problem: ProblemSpec, rule: str, beta: float) -> Method:
    """Constant momentum and cap, Section 2's rules."""
    return Method(rule, beta, C, cap(problem, rule, beta), omega_of(rule))


def laws(problem: ProblemSpec, rule: str) -> Schedules:
    """Section 5's schedules; gamma_max,0 is 0.02, or twice the standard cap at beta = 0.9."""
    first = 0.02 if problem.finite_sum().convex else 2.0 * cap(problem, rule, BETAS[-1])
    return Schedules.power_laws(0.5, 0.4, 0.9, 1.1, first, 0.3)


def diminish(problem: ProblemSpec, rule: str) -> Method:
    """Diminishing momentum, multiplier and cap, Section 4's rules."""
    eta, beta, gamma_max = laws(problem, rule)
    return Method(
        rule, beta, C, gamma_max, omega_of(rule), eta, scaling="plain", average="weighted"
    )


def metric(method: Method, problem: ProblemSpec) -> str:
    """What the method's theorem bounds."""
    if problem.finite_sum().convex:
        return "gap_average"
    return "best" if method.scaling == "theory" else "best_after"
