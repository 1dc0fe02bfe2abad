"""The lemmas and the assumption on schedules."""

import numpy as np

from heavystep.theory.basic_inequality import basic_inequality
from heavystep.theory.decoupling_convex import decoupling_identity
from heavystep.theory.decoupling_nonconvex import decoupling_inequality
from heavystep.theory.diminishing_basic_inequality import diminishing_basic_inequality
from heavystep.theory.diminishing_step_bounds import diminishing_step_bounds
from heavystep.theory.registry.result import Reduction, Result, call
from heavystep.theory.robbins_siegmund import almost_supermartingale
from heavystep.theory.schedule_assumption import check_schedules
from heavystep.theory.step_bounds import step_bounds

CERTIFIED = "at every step of random short runs and of every certified run"

LEMMAS = (
    Result(
        id="Lemma 1",
        name="basic-inequality",
        statement="gamma_k ||g_k||^2 <= (1 - sqrt(beta))^2 / (2c) (f_k - f*(x_k)) at every step",
        assumptions=("c > 0",),
        function=basic_inequality,
        location="Section 2, lemma:basic_step_size; proof in Appendix A",
        tested=CERTIFIED,
        reductions=(
            Reduction(
                "beta = 0: the inequality of SPS with divisor 2c",
                lambda p: (call(basic_inequality, p, beta=0.0), p["gap"] / (2.0 * p["c"])),
            ),
            Reduction(
                "Lemma 6 with eta = 1 and divisor 2c, at beta = 0",
                lambda p: (
                    call(basic_inequality, p, beta=0.0),
                    diminishing_basic_inequality(eta=1.0, c=2.0 * p["c"], gap=p["gap"]),
                ),
            ),
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
        name="step-bounds",
        grid=False,
        statement="gamma_min <= gamma_k <= gamma_max at every step",
        assumptions=("samples L-smooth", "c in (0, 1) and omega in (0, 1) for Armijo"),
        function=step_bounds,
        location="Section 2, lemma:step_size_bounds; proof in Appendix A",
        tested=CERTIFIED + "; attained by the Polyak rule on quadratic samples",
        reductions=(
            Reduction(
                "beta = 0, Polyak: min{1 / (2 c' L), gamma_max}, the bound of SPS with c' = 2c",
                lambda p: (
                    call(step_bounds, p, rule="polyak", beta=0.0).gamma_min,
                    min(1.0 / (2.0 * (2.0 * p["c"]) * p["L"]), p["gamma_max"]),
                ),
            ),
            Reduction(
                "small cap: gamma_min = gamma_max",
                lambda p: (
                    call(step_bounds, p, gamma_max=1e-12 / p["L"]).gamma_min,
                    1e-12 / p["L"],
                ),
            ),
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
        name="decoupling-identity",
        statement="<theta_k - theta*, v_k> equals a sum of decoupled terms on every run",
        assumptions=("theta_{-1} = theta_0", "constant beta"),
        function=decoupling_identity,
        location="Section 3, lemma:decouple_convex; proof in Appendix A",
        tested="random trajectories against the double sums, to 1e-9 of their size; certified runs "
        "to 64 roundings; and that it fails for torch's momentum buffer",
        readings=("It holds for any point in place of theta*, and for any steps.",),
        scalar=False,
    ),
    Result(
        id="Lemma 4",
        name="decoupling-inequality",
        statement="F(theta_{k+1}) - F(theta_k) is at most a sum of decoupled terms",
        assumptions=("F L-smooth", "theta_{-1} = theta_0", "constant beta"),
        function=decoupling_inequality,
        location="Section 3, lemma:decouple_nonconvex; proof in Appendix A",
        tested="random trajectories with steps of any size, and every certified run",
        readings=(
            "The proof gives L/2 instead of L for the last square, ||v_k||^2; the statement "
            "rounds it up.",
        ),
        scalar=False,
    ),
    Result(
        id="Lemma 5",
        name="diminishing-step-bounds",
        statement="eta_k gamma_min,k <= gamma_k <= eta_k gamma_max,k at every step",
        assumptions=("samples L-smooth", "c in (0, 1) and omega in (0, 1) for Armijo"),
        function=diminishing_step_bounds,
        location="Section 4, lemma:dec_stepsize_bounds",
        tested=CERTIFIED,
        reductions=(
            Reduction(
                "k = 0, beta = 0: eta_0 times Lemma 2 with twice the c (Polyak)",
                lambda p: (
                    call(diminishing_step_bounds, p, rule="polyak", c=2.0 * p["c"], k=0).gamma_min,
                    p["schedules"].eta(0)
                    * step_bounds(
                        "polyak",
                        L=p["L"],
                        beta=0.0,
                        c=p["c"],
                        gamma_max=p["schedules"].gamma_max(0),
                    ).gamma_min,
                ),
            ),
        ),
    ),
    Result(
        id="Lemma 6",
        name="diminishing-basic-inequality",
        statement="gamma_k ||g_k||^2 <= eta_k / c (f_k - f*(x_k)) at every step",
        assumptions=("c > 0",),
        function=diminishing_basic_inequality,
        location="Appendix C, lemma:dec_basic",
        tested=CERTIFIED,
        scalar=False,
    ),
    Result(
        id="Lemma 7",
        name="almost-supermartingale",
        statement="E[V_{k+1}|F_k] + U_k <= (1 + alpha_k) V_k + Z_k: "
        "V_k converges and the sum of U_k is finite",
        assumptions=("V, U, Z nonnegative", "sums of alpha_k and Z_k finite"),
        function=almost_supermartingale,
        location="Appendix C, lemma:dec_robbins_siegmund (Robbins and Siegmund)",
        tested="the finite form against the recursion run with equality",
        reductions=(
            Reduction(
                "alpha = 0: the sums of a plain supermartingale",
                lambda p: (
                    almost_supermartingale(p["gap0"], np.zeros(3), np.full(3, p["delta"])).budget,
                    p["gap0"] + p["delta"] * np.arange(1.0, 4.0),
                ),
            ),
        ),
        readings=(
            "The code has its finite form, which gives the O of Theorems 6 and 7 a constant.",
        ),
        scalar=False,
    ),
    Result(
        id="Assumption 5",
        name="schedules",
        statement="(i) sum beta_k finite; (ii) eta_k gamma_max,k falls, gamma_max,k -> 0; "
        "(iii) sum eta_k gamma_max,k infinite, sum eta_k^2 gamma_max,k finite",
        assumptions=("power laws a (1 + k/h)^-p with one horizon h",),
        function=check_schedules,
        location="Section 4, assump:as_decay",
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
