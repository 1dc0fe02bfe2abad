"""Every result: its statement and conditions, its place in the paper and in code."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from heavystep.theory import diminishing, lemmas, own, theorems
from heavystep.theory.rules import RULES


@dataclass(frozen=True)
class Result:
    """One result."""

    id: str
    """Its name in the paper, such as ``"Theorem 2"``."""
    statement: str
    """What it says, in one line."""
    assumptions: tuple[str, ...]
    function: Callable[..., Any]
    scalar: bool = True
    """Whether the function takes numbers only, so that the command line can call it."""
    grid: bool = True
    """Whether it makes a statement for each k."""
    bound_arguments: tuple[str, ...] = ()
    """What its ``bound`` needs besides k."""

    @property
    def name(self) -> str:
        """Its name on the command line."""
        return self.function.__name__.removeprefix("check_").replace("_", "-")

    @property
    def location(self) -> str:
        """The label and the section in the paper, from the docstring."""
        text = inspect.getdoc(self.function) or ""
        return text.partition("Reference: ")[2].strip().removeprefix("Zhang, Shi and Gu, ")


SMOOTH, CONVEX, NOISE = "samples L-smooth", "samples convex", "sigma^2 finite"
GROWTH = "E ||grad f||^2 <= rho ||grad F||^2 + delta"
SMOOTH_STEPS = (SMOOTH, "c in (0, 1) and omega in (0, 1) for Armijo")
HEAVY_BALL = ("theta_{-1} = theta_0", "constant beta")
ON_C = ", ".join(f"{rule.inequality} ({rule.title})" for rule in RULES.values())

RESULTS: tuple[Result, ...] = (
    Result("Lemma 1",
           "gamma_k ||g_k||^2 <= (1 - sqrt(beta))^2 / (2c) (f_k - f*(x_k)) at every step",
           ("c > 0",), lemmas.basic_inequality, scalar=False),
    Result("Lemma 2", "gamma_min <= gamma_k <= gamma_max at every step",
           SMOOTH_STEPS, lemmas.step_bounds, grid=False),
    Result("Lemma 3", "<theta_k - theta*, v_k> equals a sum of decoupled terms on every run",
           HEAVY_BALL, lemmas.decoupling_identity, scalar=False),
    Result("Lemma 4", "F(theta_{k+1}) - F(theta_k) is at most a sum of decoupled terms",
           ("F L-smooth", *HEAVY_BALL), lemmas.decoupling_inequality, scalar=False),
    Result("Lemma 5", "eta_k gamma_min,k <= gamma_k <= eta_k gamma_max,k at every step",
           SMOOTH_STEPS, diminishing.diminishing_step_bounds),
    Result("Lemma 6", "gamma_k ||g_k||^2 <= eta_k / c (f_k - f*(x_k)) at every step",
           ("c > 0",), lemmas.diminishing_basic_inequality, scalar=False),
    Result("Lemma 7", "E[V_{k+1}|F_k] + U_k <= (1 + alpha_k) V_k + Z_k: "
           "V_k converges and the sum of U_k is finite",
           ("V, U, Z nonnegative", "sums of alpha_k and Z_k finite"),
           diminishing.almost_supermartingale, scalar=False),
    Result("Assumption 5", "(i) sum beta_k finite; (ii) eta_k gamma_max,k falls, gamma_max,k -> 0; "
           "(iii) sum eta_k gamma_max,k infinite, sum eta_k^2 gamma_max,k finite",
           ("power laws a (1 + k/h)^-p with one horizon h",),
           diminishing.check_schedules, scalar=False),
    Result("Theorem 1", "E ||theta_k - theta*||^2 <= B r^k + 2 gamma_max sigma^2 / (mu gamma_min)",
           (SMOOTH, CONVEX, NOISE, "F mu-strongly convex", "c >= 1/2"), theorems.strongly_convex),
    Result("Theorem 2", "E F(mean of theta_0..theta_{k-1}) - F* <= A/k + M (k+1)/k sigma^2",
           (SMOOTH, CONVEX, NOISE, "c > 1/2"), theorems.convex),
    Result("Theorem 3", "min over m < k of E ||grad F(theta_m)||^2 <= gap0 / (k (1+beta) s1) "
           "+ (k+1)/k s2 delta / ((1+beta) s1)",
           (SMOOTH, GROWTH, ON_C, "gamma_max < nonconvex_step_limit(...)"), theorems.nonconvex),
    Result("Theorem 4", "sigma^2 = 0: F(theta_k) -> F* and F(mean) - F* = O(1/k) almost surely",
           (SMOOTH, CONVEX, "sigma^2 = 0", "c > 1/2"), theorems.convex_almost_sure),
    Result("Theorem 5", "delta = 0: ||grad F(theta_k)|| -> 0 and min over m < k of ||grad F||^2 = "
           "O(1/k) almost surely",
           (SMOOTH, "E ||grad f||^2 <= rho ||grad F||^2", "those of Theorem 3"),
           theorems.nonconvex_almost_sure),
    Result("Theorem 6", "F(weighted mean of theta_1..theta_k) - F* = O(1/S_k) almost surely, "
           "S_k = sum of eta_m gamma_max,m",
           (SMOOTH, CONVEX, NOISE, "Assumption 5", f"c >= sup over k > K of {diminishing.RATIO}"),
           diminishing.convex_diminishing, bound_arguments=("dist0_sq", "gap0")),
    Result("Theorem 7", "min over 1 <= m <= k of ||grad F(theta_m)||^2 = O(1/S_k) almost surely",
           (SMOOTH, GROWTH, "Assumption 5"),
           diminishing.nonconvex_diminishing, bound_arguments=("gap0",)),
    Result("Theorem 8", "the gap of Theorem 6 is o(1 / sum of eta_m gamma_min,m) almost surely",
           ("those of Theorem 6",), diminishing.convex_tail_bound, scalar=False),
    Result("Theorem 9", "the minimum of Theorem 7 is o(1/S_k) almost surely",
           ("those of Theorem 7",), diminishing.nonconvex_tail_bound, scalar=False),
)  # fmt: skip
"""The paper's, in its order; a result added here is listed, documented and tested."""

OWN: tuple[Result, ...] = (
    Result("Theorem A", "V_k = ||z_k - x*||^2 + L_k (F(x_{k-1}) - F*) never increases; "
           "F(x_k) - F* <= ||theta_0 - x*||^2 / L_{k+1}",
           ("F convex, full losses", "a_k ||g_k||^2 <= tau (F(theta_k) - F*), tau < 2",
            "steps that grow slowly"), own.averaged),
    Result("Theorem S", "E F(x_k) - F* = O(1/sqrt(k)) for averaged heavy ball with Polyak steps",
           ("samples convex, one point fits all", "least values known", "||g_k|| <= G"),
           own.averaged_sampled),
    Result("Theorem L", "E F(theta_k) - F* <= (||theta_0 - theta*||^2 + 2 noise sum eta_j^2) / "
           "sum eta_j, the last iterate of SHB-IMA",
           (SMOOTH, CONVEX, "eta_k <= 1 / (4 L)"), own.last_iterate),
    Result("Lemma D", "t_k >= min{cap, 2 omega (1 - c) c_1 / (L c_2^2)} along directions",
           (SMOOTH, "<g, d> >= c_1 ||g||^2, ||d|| <= c_2 ||g||"), own.directional_step, grid=False),
)  # fmt: skip
"""What this package proves of its own default and of relatives; not the paper's."""
