"""Theorems 1-5: constant parameters."""

from math import sqrt

from heavystep.theory.convex import convex
from heavystep.theory.convex_almost_sure import convex_almost_sure
from heavystep.theory.nonconvex import nonconvex
from heavystep.theory.nonconvex_almost_sure import nonconvex_almost_sure
from heavystep.theory.registry.result import Reduction, Result, call
from heavystep.theory.rules import RULES
from heavystep.theory.step_bounds import step_bounds
from heavystep.theory.strongly_convex import strongly_convex

EXACT = (
    "exact expectations, all sample paths enumerated, of thousands of short runs with random "
    "admissible constants; certificates on Section 5's problems"
)
SMOOTH = "samples L-smooth"
CONVEX = "samples convex"
NOISE = "sigma^2 finite"


def _sps_convex(p: dict[str, float]) -> tuple[float, float]:
    """Constants of SPS at c' = 2: dist0^2 / alpha and 2 gamma_b / alpha - 1."""
    alpha = min(1.0 / (4.0 * p["L"]), p["gamma_max"])
    return p["dist0_sq"] / alpha, 2.0 * p["gamma_max"] / alpha - 1.0


THEOREMS = (
    Result(
        id="Theorem 1",
        name="strongly-convex",
        statement="E ||theta_k - theta*||^2 <= B r^k + 2 gamma_max sigma^2 / (mu gamma_min)",
        assumptions=(SMOOTH, CONVEX, NOISE, "F mu-strongly convex", "c >= 1/2"),
        function=strongly_convex,
        location="Section 3, thm:strongly_convex_general; proof in Appendix B",
        tested=EXACT,
        reductions=(
            Reduction(
                "beta = 0: r = 1 - mu gamma_min, the rate of SPS",
                lambda p: (
                    call(strongly_convex, p, beta=0.0).rate,
                    1.0 - p["mu"] * call(step_bounds, p, beta=0.0).gamma_min,
                ),
            ),
            Reduction(
                "beta = 0: B = ||theta_0 - theta*||^2 - residual, or 0",
                lambda p: (
                    call(strongly_convex, p, beta=0.0).B,
                    max(0.0, p["dist0_sq"] - call(strongly_convex, p, beta=0.0).residual),
                ),
            ),
            Reduction(
                "e_1 not known: B = r e_0 / (r - r_-)",
                lambda p: (
                    (promise := call(strongly_convex, p)).B,
                    max(0.0, p["dist0_sq"] - promise.residual)
                    * (promise.rate / (promise.rate - promise.other_root)),
                ),
            ),
            Reduction(
                "sigma^2 = 0: no residual",
                lambda p: (call(strongly_convex, p, sigma2=0.0).residual, 0.0),
            ),
            Reduction(
                "k = 0: the bound is at least ||theta_0 - theta*||^2",
                lambda p: (
                    min(call(strongly_convex, p).bound(0), p["dist0_sq"]),
                    p["dist0_sq"],
                ),
            ),
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
        name="convex",
        statement="E F(mean of theta_0..theta_{k-1}) - F* <= A/k + M (k+1)/k sigma^2",
        assumptions=(SMOOTH, CONVEX, NOISE, "c > 1/2"),
        function=convex,
        location="Section 3, thm:convex_general; proof in Appendix B",
        tested=EXACT + "; the recursion it is summed from, on every run",
        reductions=(
            Reduction(
                "beta = 0, c = 1, Polyak: the constants of SPS (divisor 2)",
                lambda p: (
                    (
                        call(convex, p, rule="polyak", beta=0.0, c=1.0).A,
                        call(convex, p, rule="polyak", beta=0.0, c=1.0).M,
                    ),
                    _sps_convex(dict(p)),
                ),
            ),
            Reduction(
                "sigma^2 = 0: A / k",
                lambda p: (
                    call(convex, p, sigma2=0.0).bound(7),
                    call(convex, p, sigma2=0.0).A / 7.0,
                ),
            ),
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
        name="nonconvex",
        statement="min over m < k of E ||grad F(theta_m)||^2 <= gap0 / (k (1+beta) s1) "
        "+ (k+1)/k s2 delta / ((1+beta) s1)",
        assumptions=(
            SMOOTH,
            "E ||grad f||^2 <= rho ||grad F||^2 + delta",
            ", ".join(f"{rule.inequality} ({rule.title})" for rule in RULES.values()),
            "gamma_max < nonconvex_step_limit(...)",
        ),
        function=nonconvex,
        location="Section 3, thm:nonconvex_general; proof in Appendix B",
        tested=EXACT,
        reductions=(
            Reduction(
                "delta = 0: gap0 / (k (1 + beta) s1)",
                lambda p: (
                    call(nonconvex, p, delta=0.0).bound(9),
                    p["gap0"] / (9.0 * (1.0 + p["beta"]) * call(nonconvex, p, delta=0.0).s1),
                ),
            ),
            Reduction(
                "rho = 1: the limit of gamma_max is s_beta sqrt(kappa) / (2 L)",
                lambda p: (
                    call(
                        nonconvex, p, rho=1.0, rule="polyak", gamma_max=1e-9 / p["L"]
                    ).gamma_max_limit,
                    (1.0 - sqrt(p["beta"])) ** 2 * sqrt(1.0 / p["c"]) / (2.0 * p["L"]),
                ),
            ),
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
        name="convex-almost-sure",
        statement="sigma^2 = 0: F(theta_k) -> F* and F(mean) - F* = O(1/k) almost surely",
        assumptions=(SMOOTH, CONVEX, "sigma^2 = 0", "c > 1/2"),
        function=convex_almost_sure,
        location="Section 3, thm:convex_as; proof in Appendix B",
        tested="the sum of sampled gaps on every run; exact expectations of the sum of gaps",
        reductions=(
            Reduction(
                "the expected sum is the A of Theorem 2",
                lambda p: (call(convex_almost_sure, p).expected_sum, call(convex, p, sigma2=0.0).A),
            ),
            Reduction(
                "the sampled sum is ||theta_0 - theta*||^2 / ((1 + beta)(2 - 1/c))",
                lambda p: (
                    call(convex_almost_sure, p).sampled_sum,
                    p["dist0_sq"] / ((1.0 + p["beta"]) * (2.0 - 1.0 / p["c"])),
                ),
            ),
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
        name="nonconvex-almost-sure",
        statement="delta = 0: ||grad F(theta_k)|| -> 0 and min over m < k of ||grad F||^2 = O(1/k) "
        "almost surely",
        assumptions=(SMOOTH, "E ||grad f||^2 <= rho ||grad F||^2", "those of Theorem 3"),
        function=nonconvex_almost_sure,
        location="Section 3, thm:nonconvex_as; proof in Appendix B",
        tested="exact expectations of the sum of squared gradients; certificates",
        reductions=(
            Reduction(
                "the expected sum is k times the bound of Theorem 3 at delta = 0",
                lambda p: (
                    call(nonconvex_almost_sure, p).expected_sum,
                    11.0 * call(nonconvex, p, delta=0.0).bound(11),
                ),
            ),
        ),
        readings=(
            "As in Theorem 4, `bound(k, p)` holds for all k at once, except with probability p.",
        ),
    ),
)
