"""Theorems 6-9: diminishing steps and momentum."""

from heavystep.schedules import PowerLaw, Schedules
from heavystep.theory.convex_diminishing import convex_diminishing
from heavystep.theory.convex_little_o import convex_tail_bound
from heavystep.theory.nonconvex_diminishing import nonconvex_diminishing
from heavystep.theory.nonconvex_little_o import nonconvex_tail_bound
from heavystep.theory.registry.result import Reduction, Result, call

SMOOTH = "samples L-smooth"
GROWTH = "E ||grad f||^2 <= rho ||grad F||^2 + delta"


def _without_momentum(schedules: Schedules) -> Schedules:
    return schedules._replace(beta=PowerLaw(0.0, 2.0, schedules.eta.horizon))


THEOREMS_DIMINISHING = (
    Result(
        id="Theorem 6",
        name="convex-diminishing",
        bound_arguments=("dist0_sq", "gap0"),
        statement="F(weighted mean of theta_1..theta_k) - F* = O(1/S_k) almost surely, "
        "S_k = sum of eta_m gamma_max,m",
        assumptions=(
            SMOOTH,
            "samples convex",
            "sigma^2 finite",
            "Assumption 5",
            "c >= sup over k > K of "
            "eta_k / (1 + beta_k - beta_k/(1+beta_k) gamma_max,k/gamma_min,k)",
        ),
        function=convex_diminishing,
        location="Section 4, thm:convex_as_dec; proof in Appendix C",
        tested="the distance recursion on every run; exact expectations against the constant of "
        "the proof; the supremum against a scan",
        reductions=(
            Reduction(
                "beta = 0: the condition on c is c >= eta_{K+1}",
                lambda p: (
                    call(
                        convex_diminishing, p, schedules=_without_momentum(p["schedules"]), K=None
                    ).c_limit,
                    p["schedules"].eta(
                        call(
                            convex_diminishing,
                            p,
                            schedules=_without_momentum(p["schedules"]),
                            K=None,
                        ).K
                        + 1
                    ),
                ),
            ),
        ),
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
        name="nonconvex-diminishing",
        bound_arguments=("gap0",),
        statement="min over 1 <= m <= k of ||grad F(theta_m)||^2 = O(1/S_k) almost surely",
        assumptions=(SMOOTH, GROWTH, "Assumption 5"),
        function=nonconvex_diminishing,
        location="Section 4, thm:nonconvex_as_dec; proof in Appendix C",
        tested="exact expectations against the constant of the proof; monotonicity of C_k and "
        "D_k / (eta_k gamma_max,k)",
        reductions=(
            Reduction(
                "beta = 0: C_k = 0",
                lambda p: (
                    call(nonconvex_diminishing, p, schedules=_without_momentum(p["schedules"]))
                    .coefficients(5)
                    .C,
                    0.0,
                ),
            ),
        ),
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
        name="convex-tail-bound",
        statement="the gap of Theorem 6 is o(1 / sum of eta_m gamma_min,m) almost surely",
        assumptions=("those of Theorem 6",),
        function=convex_tail_bound,
        location="Appendix C, thm:convex_as_dec_little_o",
        tested="the tail inequality of the proof with n = k/2 at every k, on every run: it follows "
        "from smoothness alone, so that it tests the code, not the run",
        readings=("An o cannot be checked at finite k. Its proof was read.",),
        scalar=False,
    ),
    Result(
        id="Theorem 9",
        name="nonconvex-tail-bound",
        statement="the minimum of Theorem 7 is o(1/S_k) almost surely",
        assumptions=("those of Theorem 7",),
        function=nonconvex_tail_bound,
        location="Appendix C, thm:nonconvex_as_dec_little_o",
        tested="the tail inequality of the proof with n = k/2 at every k, on every run: it holds "
        "for any nonnegative numbers, so that it tests the code, not the run",
        readings=("An o cannot be checked at finite k. Its proof was read.",),
        scalar=False,
    ),
)
