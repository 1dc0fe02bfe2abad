"""Every result of the paper: its statement and conditions, its place in the paper and in code."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from heavystep.theory.averaged import averaged, averaged_sampled
from heavystep.theory.convex import convex, convex_almost_sure
from heavystep.theory.convex_diminishing import convex_diminishing, convex_tail_bound
from heavystep.theory.decoupling import decoupling_identity, decoupling_inequality
from heavystep.theory.diminishing import (
    almost_supermartingale,
    check_schedules,
    diminishing_step_bounds,
)
from heavystep.theory.nonconvex import nonconvex, nonconvex_almost_sure
from heavystep.theory.nonconvex_diminishing import nonconvex_diminishing, nonconvex_tail_bound
from heavystep.theory.rules import RULES
from heavystep.theory.steps import basic_inequality, diminishing_basic_inequality, step_bounds
from heavystep.theory.strongly_convex import strongly_convex


@dataclass(frozen=True)
class Result:
    """One result of the paper."""

    id: str
    """Its name in the paper, such as ``"Theorem 2"``."""
    statement: str
    """What it says, in one line."""
    assumptions: tuple[str, ...]
    function: Callable[..., Any]
    reductions: tuple[str, ...] = ()
    """Special cases in which it gives a known value; the tests compute both sides."""
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


LEMMAS = (
    Result(
        id="Lemma 1",
        statement="gamma_k ||g_k||^2 <= (1 - sqrt(beta))^2 / (2c) (f_k - f*(x_k)) at every step",
        assumptions=("c > 0",),
        function=basic_inequality,
        reductions=(
            "beta = 0: the inequality of SPS with divisor 2c",
            "Lemma 6 with eta = 1 and divisor 2c, at beta = 0",
        ),
        scalar=False,
    ),
    Result(
        id="Lemma 2",
        grid=False,
        statement="gamma_min <= gamma_k <= gamma_max at every step",
        assumptions=("samples L-smooth", "c in (0, 1) and omega in (0, 1) for Armijo"),
        function=step_bounds,
        reductions=(
            "beta = 0, Polyak: min{1 / (2 c' L), gamma_max}, the bound of SPS with c' = 2c",
            "small cap: gamma_min = gamma_max",
        ),
    ),
    Result(
        id="Lemma 3",
        statement="<theta_k - theta*, v_k> equals a sum of decoupled terms on every run",
        assumptions=("theta_{-1} = theta_0", "constant beta"),
        function=decoupling_identity,
        scalar=False,
    ),
    Result(
        id="Lemma 4",
        statement="F(theta_{k+1}) - F(theta_k) is at most a sum of decoupled terms",
        assumptions=("F L-smooth", "theta_{-1} = theta_0", "constant beta"),
        function=decoupling_inequality,
        scalar=False,
    ),
    Result(
        id="Lemma 5",
        statement="eta_k gamma_min,k <= gamma_k <= eta_k gamma_max,k at every step",
        assumptions=("samples L-smooth", "c in (0, 1) and omega in (0, 1) for Armijo"),
        function=diminishing_step_bounds,
        reductions=("k = 0, beta = 0: eta_0 times Lemma 2 with twice the c (Polyak)",),
    ),
    Result(
        id="Lemma 6",
        statement="gamma_k ||g_k||^2 <= eta_k / c (f_k - f*(x_k)) at every step",
        assumptions=("c > 0",),
        function=diminishing_basic_inequality,
        scalar=False,
    ),
    Result(
        id="Lemma 7",
        statement="E[V_{k+1}|F_k] + U_k <= (1 + alpha_k) V_k + Z_k: "
        "V_k converges and the sum of U_k is finite",
        assumptions=("V, U, Z nonnegative", "sums of alpha_k and Z_k finite"),
        function=almost_supermartingale,
        reductions=("alpha = 0: the sums of a plain supermartingale",),
        scalar=False,
    ),
    Result(
        id="Assumption 5",
        statement="(i) sum beta_k finite; (ii) eta_k gamma_max,k falls, gamma_max,k -> 0; "
        "(iii) sum eta_k gamma_max,k infinite, sum eta_k^2 gamma_max,k finite",
        assumptions=("power laws a (1 + k/h)^-p with one horizon h",),
        function=check_schedules,
        scalar=False,
    ),
)


SMOOTH = "samples L-smooth"
CONVEX = "samples convex"
GROWTH = "E ||grad f||^2 <= rho ||grad F||^2 + delta"
NOISE = "sigma^2 finite"


THEOREMS = (
    Result(
        id="Theorem 1",
        statement="E ||theta_k - theta*||^2 <= B r^k + 2 gamma_max sigma^2 / (mu gamma_min)",
        assumptions=(SMOOTH, CONVEX, NOISE, "F mu-strongly convex", "c >= 1/2"),
        function=strongly_convex,
        reductions=(
            "beta = 0: r = 1 - mu gamma_min, the rate of SPS",
            "beta = 0: B = ||theta_0 - theta*||^2 - residual, or 0",
            "e_1 not known: B = r e_0 / (r - r_-)",
            "sigma^2 = 0: no residual",
            "k = 0: the bound is at least ||theta_0 - theta*||^2",
        ),
    ),
    Result(
        id="Theorem 2",
        statement="E F(mean of theta_0..theta_{k-1}) - F* <= A/k + M (k+1)/k sigma^2",
        assumptions=(SMOOTH, CONVEX, NOISE, "c > 1/2"),
        function=convex,
        reductions=(
            "beta = 0, c = 1, Polyak: the constants of SPS (divisor 2)",
            "sigma^2 = 0: A / k",
        ),
    ),
    Result(
        id="Theorem 3",
        statement="min over m < k of E ||grad F(theta_m)||^2 <= gap0 / (k (1+beta) s1) "
        "+ (k+1)/k s2 delta / ((1+beta) s1)",
        assumptions=(
            SMOOTH,
            GROWTH,
            ", ".join(f"{rule.inequality} ({rule.title})" for rule in RULES.values()),
            "gamma_max < nonconvex_step_limit(...)",
        ),
        function=nonconvex,
        reductions=(
            "delta = 0: gap0 / (k (1 + beta) s1)",
            "rho = 1: the limit of gamma_max is s_beta sqrt(kappa) / (2 L)",
        ),
    ),
    Result(
        id="Theorem 4",
        statement="sigma^2 = 0: F(theta_k) -> F* and F(mean) - F* = O(1/k) almost surely",
        assumptions=(SMOOTH, CONVEX, "sigma^2 = 0", "c > 1/2"),
        function=convex_almost_sure,
        reductions=(
            "the expected sum is the A of Theorem 2",
            "the sampled sum is ||theta_0 - theta*||^2 / ((1 + beta)(2 - 1/c))",
        ),
    ),
    Result(
        id="Theorem 5",
        statement="delta = 0: ||grad F(theta_k)|| -> 0 and min over m < k of ||grad F||^2 = O(1/k) "
        "almost surely",
        assumptions=(SMOOTH, "E ||grad f||^2 <= rho ||grad F||^2", "those of Theorem 3"),
        function=nonconvex_almost_sure,
        reductions=("the expected sum is k times the bound of Theorem 3 at delta = 0",),
    ),
)


THEOREMS_DIMINISHING = (
    Result(
        id="Theorem 6",
        bound_arguments=("dist0_sq", "gap0"),
        statement="F(weighted mean of theta_1..theta_k) - F* = O(1/S_k) almost surely, "
        "S_k = sum of eta_m gamma_max,m",
        assumptions=(
            SMOOTH,
            CONVEX,
            NOISE,
            "Assumption 5",
            "c >= sup over k > K of "
            "eta_k / (1 + beta_k - beta_k/(1+beta_k) gamma_max,k/gamma_min,k)",
        ),
        function=convex_diminishing,
        reductions=("beta = 0: the condition on c is c >= eta_{K+1}",),
    ),
    Result(
        id="Theorem 7",
        bound_arguments=("gap0",),
        statement="min over 1 <= m <= k of ||grad F(theta_m)||^2 = O(1/S_k) almost surely",
        assumptions=(SMOOTH, GROWTH, "Assumption 5"),
        function=nonconvex_diminishing,
        reductions=("beta = 0: C_k = 0",),
    ),
    Result(
        id="Theorem 8",
        statement="the gap of Theorem 6 is o(1 / sum of eta_m gamma_min,m) almost surely",
        assumptions=("those of Theorem 6",),
        function=convex_tail_bound,
        scalar=False,
    ),
    Result(
        id="Theorem 9",
        statement="the minimum of Theorem 7 is o(1/S_k) almost surely",
        assumptions=("those of Theorem 7",),
        function=nonconvex_tail_bound,
        scalar=False,
    ),
)


RESULTS: tuple[Result, ...] = LEMMAS + THEOREMS + THEOREMS_DIMINISHING
"""In the order of the paper's numbers; a result added here is listed, documented and tested."""


OWN: tuple[Result, ...] = (
    Result(
        id="Theorem A",
        statement="V_k = ||z_k - x*||^2 + L_k (F(x_{k-1}) - F*) never increases; "
        "F(x_k) - F* <= ||theta_0 - x*||^2 / L_{k+1}",
        assumptions=(
            "F convex, full losses",
            "a_k ||g_k||^2 <= tau (F(theta_k) - F*), tau < 2",
            "steps that grow slowly",
        ),
        function=averaged,
    ),
    Result(
        id="Theorem S",
        statement="E F(x_k) - F* = O(1/sqrt(k)) for averaged heavy ball with Polyak steps",
        assumptions=("samples convex, one point fits all", "least values known", "||g_k|| <= G"),
        function=averaged_sampled,
    ),
)
"""What this package proves about its own default; not the paper's."""


def find(name: str) -> Result:
    """The result with this id or name.

    >>> find("convex").id, find("Theorem 2").name
    ('Theorem 2', 'convex')
    """
    for result in RESULTS + OWN:
        if name in (result.id, result.name):
            return result
    names = ", ".join(result.name for result in RESULTS + OWN)
    raise ValueError(f"no result {name!r}; there are {names}")
