"""Every result of the paper: its statement and conditions, its place in the paper and in code."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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
    tested: str
    """How it is tested."""
    reductions: tuple[str, ...] = ()
    """Special cases in which it gives a known value; the tests compute both sides."""
    readings: tuple[str, ...] = ()
    """Remarks where the statement is ambiguous, leaves something open or can be sharpened."""
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


CERTIFIED = "at every step of random short runs and of every certified run"

LEMMAS = (
    Result(
        id="Lemma 1",
        statement="gamma_k ||g_k||^2 <= (1 - sqrt(beta))^2 / (2c) (f_k - f*(x_k)) at every step",
        assumptions=("c > 0",),
        function=basic_inequality,
        tested=CERTIFIED,
        reductions=(
            "beta = 0: the inequality of SPS with divisor 2c",
            "Lemma 6 with eta = 1 and divisor 2c, at beta = 0",
        ),
        readings=(
            "f* may be any lower bound of the sampled loss. Everything that follows then holds "
            "with sigma^2 counted from that bound.",
            "A vanished gradient makes the Polyak ratio 0/0. heavystep then takes no gradient "
            "step, and both sides are compared as they stand.",
        ),
        scalar=False,
    ),
    Result(
        id="Lemma 2",
        grid=False,
        statement="gamma_min <= gamma_k <= gamma_max at every step",
        assumptions=("samples L-smooth", "c in (0, 1) and omega in (0, 1) for Armijo"),
        function=step_bounds,
        tested=CERTIFIED + "; attained by the Polyak rule on quadratic samples",
        reductions=(
            "beta = 0, Polyak: min{1 / (2 c' L), gamma_max}, the bound of SPS with c' = 2c",
            "small cap: gamma_min = gamma_max",
        ),
        readings=(
            "Where the gradient vanishes no step is taken and the lower bound does not apply.",
            "The smooth reset of Appendix E makes the cap depend on the step before; the lower "
            "bound then fails, and certificates leave it out.",
            "Lemmas 2 and 5 are one formula, min{kappa u / L, cap} with u = 1/(2c) or "
            "2 omega (1 - c) and kappa = s_beta / 2 or 1; it also covers the practical scaling "
            "(kappa = 1/2), about which the paper states nothing.",
        ),
    ),
    Result(
        id="Lemma 3",
        statement="<theta_k - theta*, v_k> equals a sum of decoupled terms on every run",
        assumptions=("theta_{-1} = theta_0", "constant beta"),
        function=decoupling_identity,
        tested="random trajectories against the double sums, to 1e-9 of their size; certified runs "
        "to 64 roundings; and that it fails for torch's momentum buffer",
        readings=("It holds for any point in place of theta*, and for any steps.",),
        scalar=False,
    ),
    Result(
        id="Lemma 4",
        statement="F(theta_{k+1}) - F(theta_k) is at most a sum of decoupled terms",
        assumptions=("F L-smooth", "theta_{-1} = theta_0", "constant beta"),
        function=decoupling_inequality,
        tested="random trajectories with steps of any size, and every certified run",
        readings=(
            "The proof gives L/2 instead of L for the last square, ||v_k||^2; the statement "
            "rounds it up.",
        ),
        scalar=False,
    ),
    Result(
        id="Lemma 5",
        statement="eta_k gamma_min,k <= gamma_k <= eta_k gamma_max,k at every step",
        assumptions=("samples L-smooth", "c in (0, 1) and omega in (0, 1) for Armijo"),
        function=diminishing_step_bounds,
        tested=CERTIFIED,
        reductions=("k = 0, beta = 0: eta_0 times Lemma 2 with twice the c (Polyak)",),
    ),
    Result(
        id="Lemma 6",
        statement="gamma_k ||g_k||^2 <= eta_k / c (f_k - f*(x_k)) at every step",
        assumptions=("c > 0",),
        function=diminishing_basic_inequality,
        tested=CERTIFIED,
        scalar=False,
    ),
    Result(
        id="Lemma 7",
        statement="E[V_{k+1}|F_k] + U_k <= (1 + alpha_k) V_k + Z_k: "
        "V_k converges and the sum of U_k is finite",
        assumptions=("V, U, Z nonnegative", "sums of alpha_k and Z_k finite"),
        function=almost_supermartingale,
        tested="the finite form against the recursion run with equality",
        reductions=("alpha = 0: the sums of a plain supermartingale",),
        readings=(
            "The code has its finite form, which gives the O of Theorems 6 and 7 a constant.",
        ),
        scalar=False,
    ),
    Result(
        id="Assumption 5",
        statement="(i) sum beta_k finite; (ii) eta_k gamma_max,k falls, gamma_max,k -> 0; "
        "(iii) sum eta_k gamma_max,k infinite, sum eta_k^2 gamma_max,k finite",
        assumptions=("power laws a (1 + k/h)^-p with one horizon h",),
        function=check_schedules,
        tested="every combination of exponents on a grid of tenths, boundaries included, against "
        "rational arithmetic",
        readings=(
            "For power laws it is decided exactly, by the exponents: p_beta > 1 (or beta = 0), "
            "p_gamma > 0, 0 <= p_eta + p_gamma <= 1, 2 p_eta + p_gamma > 1. Exponents count as "
            "the decimal numbers they print as: 0.7 + 0.3 is 1.",
            "(iii) implies p_eta > 0: eta_k itself must go to 0.",
            "The paper starts its sums at k = 1 while the method starts at k = 0; the step k = 0 "
            "is not restricted. heavystep's power laws meet the assumption from k = 0 on.",
        ),
        scalar=False,
    ),
)


EXACT = (
    "exact expectations, all sample paths enumerated, of thousands of short runs with random "
    "admissible constants; certificates on Section 5's problems"
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
        tested=EXACT,
        reductions=(
            "beta = 0: r = 1 - mu gamma_min, the rate of SPS",
            "beta = 0: B = ||theta_0 - theta*||^2 - residual, or 0",
            "e_1 not known: B = r e_0 / (r - r_-)",
            "sigma^2 = 0: no residual",
            "k = 0: the bound is at least ||theta_0 - theta*||^2",
        ),
        readings=(
            "B is left open. From the proof, with e_k = E||theta_k - theta*||^2 - residual: "
            "B = max{e_0, (e_1 - r_- e_0) / (r - r_-)}; where e_1 is not known the recursion "
            "bounds it by (1 - mu gamma_min) e_0, so B = r e_0 / (r - r_-).",
            "The statement says B > 0, the proof B >= 0. B = 0 if the start is within the "
            "residual (e_0 <= 0): the run then stays there in mean square.",
            "For mu gamma_min <= 1, r is real exactly if mu gamma_min <= (sqrt(1 + beta) - "
            "sqrt(beta))^2. With c >= 1/2, Lemma 2 gives mu gamma_min <= (1 - sqrt(beta))^2 / 2, "
            "which is always smaller.",
            "The proof keeps two terms of its recursion. All terms together contract at the rate "
            "of the larger root of z^2 - (1 + beta - x) z + beta, x = mu gamma_min (up to a "
            "constant): 1 - x / (1 - beta) instead of 1 - x (1 + beta) to first order, 5.3 times "
            "faster at beta = 0.9.",
        ),
    ),
    Result(
        id="Theorem 2",
        statement="E F(mean of theta_0..theta_{k-1}) - F* <= A/k + M (k+1)/k sigma^2",
        assumptions=(SMOOTH, CONVEX, NOISE, "c > 1/2"),
        function=convex,
        tested=EXACT + "; the recursion it is summed from, on every run",
        reductions=(
            "beta = 0, c = 1, Polyak: the constants of SPS (divisor 2)",
            "sigma^2 = 0: A / k",
        ),
        readings=(
            "The noise of k + 1 steps is summed for an average over k iterates, hence (k+1)/k; "
            "the bound is meaningless at k = 0 and refused there.",
            "The last square ||v_k||^2 is counted twice (as in Lemma 4). At beta = 0 a sharp count "
            "gives 2 - 1/(2c) instead of 2 - 1/c, and would allow c > 1/4.",
            "Of the weights 1 + beta + ... + beta^(k-m) two terms are kept, which is all there is "
            "for m = k - 1. Summing more recursions than iterates would gain up to "
            "1 / (1 - beta^2), 5.3 at beta = 0.9, where sigma^2 = 0.",
            "Without a restriction by gamma_max, A is smallest at c = 1 (Polyak) and "
            "c = 1/sqrt(2) (Armijo).",
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
        tested=EXACT,
        reductions=(
            "delta = 0: gap0 / (k (1 + beta) s1)",
            "rho = 1: the limit of gamma_max is s_beta sqrt(kappa) / (2 L)",
        ),
        readings=(
            "It bounds the least of the expectations, not the expectation of the least; "
            "certificates take the mean over runs first and the minimum afterwards.",
            "The kappa of this theorem (1/c or 4 omega (1 - c)) is not the scaling of the rules; "
            "it is twice the u of Lemma 2, and gamma_min = min{gamma_max, s_beta kappa / (4L)}.",
            "The condition on c is kappa <= 4/rho, with equality allowed for Polyak only; equality "
            "would do for Armijo, too. Beyond it the proof still works for "
            "gamma_max < s_beta / (rho L), where the cap alone keeps s1 > 0.",
            "With delta = 0, rho >= 1 wherever the gradient of F does not vanish identically.",
        ),
    ),
    Result(
        id="Theorem 4",
        statement="sigma^2 = 0: F(theta_k) -> F* and F(mean) - F* = O(1/k) almost surely",
        assumptions=(SMOOTH, CONVEX, "sigma^2 = 0", "c > 1/2"),
        function=convex_almost_sure,
        tested="the sum of sampled gaps on every run; exact expectations of the sum of gaps",
        reductions=(
            "the expected sum is the A of Theorem 2",
            "the sampled sum is ||theta_0 - theta*||^2 / ((1 + beta)(2 - 1/c))",
        ),
        readings=(
            "The constant in O(1/k) is random. Its expectation is at most A, so that by Markov's "
            "inequality A / (p k) holds for all k at once, except with probability p: "
            "`bound(k, p)`.",
            "Summed before taking expectations, the recursion bounds the sampled gaps on every "
            "run; the distance to theta* never increases. Certificates check both.",
        ),
    ),
    Result(
        id="Theorem 5",
        statement="delta = 0: ||grad F(theta_k)|| -> 0 and min over m < k of ||grad F||^2 = O(1/k) "
        "almost surely",
        assumptions=(SMOOTH, "E ||grad f||^2 <= rho ||grad F||^2", "those of Theorem 3"),
        function=nonconvex_almost_sure,
        tested="exact expectations of the sum of squared gradients; certificates",
        reductions=("the expected sum is k times the bound of Theorem 3 at delta = 0",),
        readings=(
            "As in Theorem 4, `bound(k, p)` holds for all k at once, except with probability p.",
        ),
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
        tested="the distance recursion on every run; exact expectations against the constant of "
        "the proof; the supremum against a scan",
        reductions=("beta = 0: the condition on c is c >= eta_{K+1}",),
        readings=(
            "The denominator in the condition on c must be positive; the paper does not say so. "
            "Read literally, a negative one satisfies the inequality and breaks the step that "
            "needs it: beta = 0.9, gamma_max/gamma_min = 5, eta = 0.5, c = 0.75 gives "
            "0.5 / (1.9 - 2.37) < 0 <= c, yet eta gamma_min (1 + beta - eta/c) = "
            "1.23 eta gamma_min is less than eta gamma_max beta / (1 + beta) = "
            "2.37 eta gamma_min. heavystep "
            "takes the ratio as infinite there. For large k the denominator is positive.",
            "gamma_min,k depends on c, so that c stands on both sides of the condition.",
            "For power laws Assumption 5 forces eta_k -> 0, and every c > 0 meets the condition "
            "from some K on: it restricts finite K only. In Section 5's setting K = -1 (all k) "
            "for Polyak; for Armijo it holds only beyond some thousand steps.",
            "The average starts at theta_1; theta_0 is left out.",
            "O(1/S_k) hides exp(sum of beta_k): the proof multiplies by prod (1 + beta_k), about "
            "10^37900 for Section 5's beta_k = 0.9 (1 + k/10^4)^-1.1. `bound(k, ...)` computes the "
            "constant; it is useful for small momentum and short horizons, and infinite in float64 "
            "beyond.",
        ),
    ),
    Result(
        id="Theorem 7",
        bound_arguments=("gap0",),
        statement="min over 1 <= m <= k of ||grad F(theta_m)||^2 = O(1/S_k) almost surely",
        assumptions=(SMOOTH, GROWTH, "Assumption 5"),
        function=nonconvex_diminishing,
        tested="exact expectations against the constant of the proof; monotonicity of C_k and "
        "D_k / (eta_k gamma_max,k)",
        reductions=("beta = 0: C_k = 0",),
        readings=(
            "C_k is said to decrease. It does where its denominator 1 + beta_k (1 - beta_k - "
            "eta_k gamma_max,k) is positive, and only there is it a Lyapunov coefficient: L = 1, "
            "beta = 0.9, eta gamma_max = 3 gives C = -1.4. For large k the denominator is "
            "positive; `K` is the index from which D_k > 0, and it can be large (millions of "
            "steps for Section 5's least squares).",
            "The minimum starts at theta_1.",
        ),
    ),
    Result(
        id="Theorem 8",
        statement="the gap of Theorem 6 is o(1 / sum of eta_m gamma_min,m) almost surely",
        assumptions=("those of Theorem 6",),
        function=convex_tail_bound,
        tested="the tail inequality of the proof with n = k/2 at every k, on every run: it follows "
        "from smoothness alone, so that it tests the code, not the run",
        readings=("An o cannot be checked at finite k. Its proof was read.",),
        scalar=False,
    ),
    Result(
        id="Theorem 9",
        statement="the minimum of Theorem 7 is o(1/S_k) almost surely",
        assumptions=("those of Theorem 7",),
        function=nonconvex_tail_bound,
        tested="the tail inequality of the proof with n = k/2 at every k, on every run: it holds "
        "for any nonnegative numbers, so that it tests the code, not the run",
        readings=("An o cannot be checked at finite k. Its proof was read.",),
        scalar=False,
    ),
)


RESULTS: tuple[Result, ...] = LEMMAS + THEOREMS + THEOREMS_DIMINISHING
"""In the order of the paper's numbers; a result added here is listed, documented and tested."""


def find(name: str) -> Result:
    """The result with this id or name.

    >>> find("convex").id, find("Theorem 2").name
    ('Theorem 2', 'convex')
    """
    for result in RESULTS:
        if name in (result.id, result.name):
            return result
    names = ", ".join(result.name for result in RESULTS)
    raise ValueError(f"no result {name!r}; there are {names}")
