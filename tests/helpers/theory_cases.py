"""Small problems, admissible constants and the tables of the theory tests."""

import inspect
from itertools import product
from math import inf, nan, sqrt

import numpy as np
from hypothesis import strategies as st

from heavystep import theory
from heavystep.problems import Cosine, LeastSquares, LogisticRegression
from heavystep.schedules import PowerLaw, Schedules
from tests.helpers.runs import recorded

PATH_STEPS = 5


def least_squares(rng):
    A = rng.normal(size=(3, 2)) * [0.5, 2.0]
    noise = rng.normal(size=3) * rng.choice([0.0, 1.0])
    return LeastSquares(A, A @ rng.normal(size=2) + noise, theta0=3.0 * rng.normal(size=2))


def logistic(rng):
    A = rng.normal(size=(3, 2)) * [1.0, 3.0]
    y = rng.choice([-1.0, 1.0], size=3)
    return LogisticRegression(A, y, l2=rng.uniform(0.05, 1.0), theta0=2.0 * rng.normal(size=2))


def cosine(rng):
    xi = np.zeros((4, 2))
    if rng.random() < 0.5:
        xi[:2] = rng.normal(size=(2, 2))
        xi[2:] = -xi[:2]
        s = np.ones(4) * rng.uniform(0.3, 2.0)
    else:
        s = rng.uniform(0.3, 2.0, size=4)
    return Cosine(s, xi, theta0=3.0 * rng.normal(size=2))


CONVEX = [least_squares, logistic]
ANY = [*CONVEX, cosine]
problem_seeds = st.integers(0, 2**32 - 1)


def make_problem(builders, seed):
    rng = np.random.default_rng(seed)
    return builders[rng.integers(len(builders))](rng)


def every_path(problem, steps=PATH_STEPS):
    """All sequences of samples: their plain mean is the exact expectation."""
    return np.array(list(product(range(problem.n), repeat=steps)))


def log_uniform(low, high):
    return st.floats(np.log10(low), np.log10(high)).map(lambda e: float(10.0**e))


momenta = st.one_of(st.just(0.0), st.floats(0.0, 0.98))


RULES = {"polyak": (4.0, st.none()), "armijo": (0.99, st.floats(0.1, 0.95))}
"""For each rule the largest c that is tried, and omega."""
ADMISSIBLE_C = {
    "polyak": lambda c, omega, rho: max(c, rho / 4.0),
    "armijo": lambda c, omega, rho: max(c, 1.0 - 0.9 / (omega * rho)),
}
"""c, raised where Theorem 3 asks for more."""


@st.composite
def methods(draw, least_c=0.5, open_c=False):
    """A rule with c, omega, momentum and the cap in units of 1 / L."""
    rule = draw(st.sampled_from(list(RULES)))
    largest_c, omega = RULES[rule]
    low = least_c + (1e-3 if open_c else 0.0)
    return {
        "rule": rule,
        "beta": draw(momenta),
        "c": draw(st.floats(low, largest_c)),
        "cap": draw(log_uniform(1e-3, 1e3)),
        "omega": draw(omega),
    }


@st.composite
def parameters(draw):
    """One admissible value of everything: what the reductions are evaluated on."""
    method = draw(methods(least_c=0.5, open_c=True))
    L = draw(log_uniform(1e-2, 1e2))
    rho = draw(st.floats(0.5, 2.0))  # c > 1/2 >= rho / 4
    omega = method["omega"]
    c = ADMISSIBLE_C[method["rule"]](method["c"], omega, rho)
    limit = theory.nonconvex_step_limit(
        method["rule"], L=L, rho=rho, beta=method["beta"], c=c, omega=omega
    )
    return {
        "rule": method["rule"],
        "L": L,
        "mu": L * draw(log_uniform(1e-3, 1.0)),
        "rho": rho,
        "delta": draw(st.floats(0.0, 10.0)),
        "beta": method["beta"],
        "c": c,
        "omega": omega,
        "gamma_max": limit * draw(st.floats(1e-3, 0.999)),
        "sigma2": draw(st.floats(0.0, 10.0)),
        "dist0_sq": draw(st.floats(0.0, 1e3)),
        "gap0": draw(st.floats(0.0, 1e3)),
        "gap": draw(st.floats(0.0, 1e3)),
        "schedules": draw(schedules()),
    }


@st.composite
def schedules(draw, horizon=None):
    """Power laws within Assumption 5."""
    eta_power = draw(st.floats(0.05, 0.95))
    low, high = max(1.0 - 2.0 * eta_power, 0.0), 1.0 - eta_power
    return Schedules.power_laws(
        eta0=draw(st.floats(0.05, 1.5)),
        eta_power=eta_power,
        beta0=draw(st.floats(0.0, 0.95)),
        beta_power=draw(st.floats(1.05, 3.0)),
        gamma_max0=draw(log_uniform(1e-3, 1e1)),
        gamma_max_power=low + draw(st.floats(0.1, 0.9)) * (high - low),
        horizon=draw(log_uniform(1.0, 1e4)) if horizon is None else horizon,
    )


def run(problem, method, samples, gamma_max):
    options = {name: method[name] for name in ("beta", "c", "omega")}
    return recorded(problem, method["rule"], samples, gamma_max=gamma_max, **options)


LAWS = Schedules.power_laws(0.5, 0.4, 0.9, 1.1, 0.02, 0.3)
VALUES = {
    "rule": "polyak", "L": 2.0, "mu": 0.5, "rho": 1.25, "delta": 1.0, "beta": 0.9, "c": 0.75,
    "gamma_max": 1e-4, "sigma2": 0.1, "dist0_sq": 4.0, "gap0": 3.0, "schedules": LAWS, "k": 3,
    "eta": 0.5, "gap": 1.0,
}  # fmt: skip
FUNCTIONS = (
    "strongly_convex", "convex", "nonconvex", "convex_almost_sure", "nonconvex_almost_sure",
    "step_bounds", "nonconvex_step_limit", "convex_diminishing", "nonconvex_diminishing",
    "diminishing_step_bounds", "basic_inequality", "diminishing_basic_inequality",
)  # fmt: skip
GOOD = {
    name: {a: VALUES[a] for a in inspect.signature(getattr(theory, name)).parameters if a in VALUES}
    for name in FUNCTIONS
}
"""Arguments that each function accepts; the tests below change one of them."""

POSITIVE, NON_NEGATIVE = [0.0, -1.0, nan, inf], [-1e-9, nan, inf]
OUT_OF_RANGE = {
    **dict.fromkeys(("L", "mu", "rho", "c", "gamma_max"), POSITIVE),
    **dict.fromkeys(("delta", "sigma2", "dist0_sq", "gap0"), NON_NEGATIVE),
    "beta": [-0.1, 1.0, 1.5, nan],
}

BROKEN = [
    ("strongly_convex", {"mu": 3.0}, r"Theorem 1 needs mu <= L, got mu = 3.0, L = 2.0"),
    ("strongly_convex", {"c": 0.49}, r"Theorem 1 needs c >= 1/2, got c = 0.49"),
    ("convex", {"c": 0.5}, r"Theorem 2 needs c > 1/2, got c = 0.5"),
    ("convex_almost_sure", {"c": 0.5}, r"Theorem 4: Theorem 2 needs c > 1/2, got c = 0.5"),
    ("nonconvex", {"c": 0.3}, r"Theorem 3 needs c >= rho / 4, got c = 0.3, rho = 1.25"),
    ("nonconvex", {"gamma_max": 1.0}, r"Theorem 3 needs gamma_max < limit, got gamma_max = 1.0, limit = 0.0006"),
    ("nonconvex", {"rule": "armijo", "omega": 0.9, "rho": 20.0},
     r"Theorem 3 needs c > 1 - 1 / \(omega rho\), got c = 0.75, omega = 0.9, rho = 20.0, .* = 0.944"),
    ("convex", {"rule": "armijo"}, r"Theorem 2 needs omega in \(0, 1\) for the Armijo rule, got omega = None"),
    ("convex", {"rule": "armijo", "omega": 1.0}, r"Theorem 2 needs omega in \(0, 1\), got omega = 1.0"),
    ("convex", {"rule": "armijo", "omega": 0.5, "c": 1.0}, r"Theorem 2 needs c in \(0, 1\), got c = 1.0"),
    ("convex", {"rule": "adam"}, r"rule must be one of 'polyak', 'armijo', got 'adam'"),
    ("convex_diminishing", {"schedules": Schedules.power_laws(0.5, 0.4, 0.9, 1.0, 0.02, 0.3)},
     r"Theorem 6: schedule breaks item \(i\) .* beta_power > 1, got 1"),
    ("convex_diminishing",
     {"schedules": Schedules.power_laws(1.2, 0.4, 0.9, 1.1, 0.02, 0.3), "c": 0.1, "K": 0},
     r"Theorem 6 needs c >= sup over k > K of .*, got c = 0.1, sup = 0.8.*, K = 0"),
    ("nonconvex_diminishing", {"schedules": Schedules.power_laws(0.5, 0.4, 1.0, 1.1, 0.02, 0.3)},
     r"Theorem 7 needs beta0 in \[0, 1\), got beta0 = 1.0"),
]  # fmt: skip
"""function, changed arguments, message."""


def call(function, parameters, **changes):
    """Call ``function`` with those of ``parameters``, after ``changes``, that it takes."""
    values = {**parameters, **changes}
    names = inspect.signature(function).parameters
    return function(**{name: value for name, value in values.items() if name in names})


def sps_convex(p):
    """Constants of SPS at c' = 2: dist0^2 / alpha and 2 gamma_b / alpha - 1."""
    alpha = min(1.0 / (4.0 * p["L"]), p["gamma_max"])
    return p["dist0_sq"] / alpha, 2.0 * p["gamma_max"] / alpha - 1.0


def without_momentum(schedules):
    return schedules._replace(beta=PowerLaw(0.0, 2.0, schedules.eta.horizon))


def still(p, **changes):
    """Theorem 6 with schedules without momentum."""
    return call(theory.convex_diminishing, p, schedules=without_momentum(p["schedules"]), **changes)


REDUCTIONS = {
    "beta = 0: the inequality of SPS with divisor 2c": lambda p: (
        call(theory.basic_inequality, p, beta=0.0), p["gap"] / (2.0 * p["c"])),
    "Lemma 6 with eta = 1 and divisor 2c, at beta = 0": lambda p: (
        call(theory.basic_inequality, p, beta=0.0),
        theory.diminishing_basic_inequality(eta=1.0, c=2.0 * p["c"], gap=p["gap"])),
    "beta = 0, Polyak: min{1 / (2 c' L), gamma_max}, the bound of SPS with c' = 2c": lambda p: (
        call(theory.step_bounds, p, rule="polyak", beta=0.0).gamma_min,
        min(1.0 / (2.0 * (2.0 * p["c"]) * p["L"]), p["gamma_max"])),
    "small cap: gamma_min = gamma_max": lambda p: (
        call(theory.step_bounds, p, gamma_max=1e-12 / p["L"]).gamma_min, 1e-12 / p["L"]),
    "k = 0, beta = 0: eta_0 times Lemma 2 with twice the c (Polyak)": lambda p: (
        call(theory.diminishing_step_bounds, p, rule="polyak", c=2.0 * p["c"], k=0).gamma_min,
        p["schedules"].eta(0) * theory.step_bounds(
            "polyak", L=p["L"], beta=0.0, c=p["c"], gamma_max=p["schedules"].gamma_max(0)).gamma_min),
    "alpha = 0: the sums of a plain supermartingale": lambda p: (
        theory.almost_supermartingale(p["gap0"], np.zeros(3), np.full(3, p["delta"])).budget,
        p["gap0"] + p["delta"] * np.arange(1.0, 4.0)),
    "beta = 0: r = 1 - mu gamma_min, the rate of SPS": lambda p: (
        call(theory.strongly_convex, p, beta=0.0).rate,
        1.0 - p["mu"] * call(theory.step_bounds, p, beta=0.0).gamma_min),
    "beta = 0: B = ||theta_0 - theta*||^2 - residual, or 0": lambda p: (
        (promise := call(theory.strongly_convex, p, beta=0.0)).B,
        max(0.0, p["dist0_sq"] - promise.residual)),
    "e_1 not known: B = r e_0 / (r - r_-)": lambda p: (
        (promise := call(theory.strongly_convex, p)).B, max(0.0, p["dist0_sq"] - promise.residual)
        * (promise.rate / (promise.rate - promise.other_root))),
    "sigma^2 = 0: no residual": lambda p: (
        call(theory.strongly_convex, p, sigma2=0.0).residual, 0.0),
    "k = 0: the bound is at least ||theta_0 - theta*||^2": lambda p: (
        min(call(theory.strongly_convex, p).bound(0), p["dist0_sq"]), p["dist0_sq"]),
    "beta = 0, c = 1, Polyak: the constants of SPS (divisor 2)": lambda p: (
        ((promise := call(theory.convex, p, rule="polyak", beta=0.0, c=1.0)).A, promise.M),
        sps_convex(p)),
    "sigma^2 = 0: A / k": lambda p: (
        (promise := call(theory.convex, p, sigma2=0.0)).bound(7), promise.A / 7.0),
    "delta = 0: gap0 / (k (1 + beta) s1)": lambda p: (
        (promise := call(theory.nonconvex, p, delta=0.0)).bound(9),
        p["gap0"] / (9.0 * (1.0 + p["beta"]) * promise.s1)),
    "rho = 1: the limit of gamma_max is s_beta sqrt(kappa) / (2 L)": lambda p: (
        call(theory.nonconvex, p, rho=1.0, rule="polyak", gamma_max=1e-9 / p["L"]).gamma_max_limit,
        (1.0 - sqrt(p["beta"])) ** 2 * sqrt(1.0 / p["c"]) / (2.0 * p["L"])),
    "the expected sum is the A of Theorem 2": lambda p: (
        call(theory.convex_almost_sure, p).expected_sum, call(theory.convex, p, sigma2=0.0).A),
    "the sampled sum is ||theta_0 - theta*||^2 / ((1 + beta)(2 - 1/c))": lambda p: (
        call(theory.convex_almost_sure, p).sampled_sum,
        p["dist0_sq"] / ((1.0 + p["beta"]) * (2.0 - 1.0 / p["c"]))),
    "the expected sum is k times the bound of Theorem 3 at delta = 0": lambda p: (
        call(theory.nonconvex_almost_sure, p).expected_sum,
        11.0 * call(theory.nonconvex, p, delta=0.0).bound(11)),
    "beta = 0: the condition on c is c >= eta_{K+1}": lambda p: (
        (promise := still(p, K=None)).c_limit, p["schedules"].eta(promise.K + 1)),
    "beta = 0: C_k = 0": lambda p: (
        call(theory.nonconvex_diminishing, p, schedules=without_momentum(p["schedules"]))
        .coefficients(5).C, 0.0),
}  # fmt: skip
"""What a result gives and what it must give, for admissible parameters, by the registry's text."""
