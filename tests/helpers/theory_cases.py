"""Small problems, admissible constants and the tables of the theory tests."""

from itertools import product
from math import inf, nan

import numpy as np
from hypothesis import strategies as st

from heavystep import theory
from heavystep.problems import Cosine, LeastSquares, LogisticRegression
from heavystep.schedules import Schedules
from tests.helpers.paper_symbols import recorded

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
    return recorded(
        problem,
        method["rule"],
        samples,
        beta=method["beta"],
        c=method["c"],
        gamma_max=gamma_max,
        omega=method["omega"],
    )


LAWS = Schedules.power_laws(0.5, 0.4, 0.9, 1.1, 0.02, 0.3)
GOOD = {
    "strongly_convex": {"rule": "polyak", "L": 2.0, "mu": 0.5, "beta": 0.9, "c": 0.75, "gamma_max": 1.0, "dist0_sq": 4.0},
    "convex": {"rule": "polyak", "L": 2.0, "beta": 0.9, "c": 0.75, "gamma_max": 1.0, "dist0_sq": 4.0},
    "nonconvex": {"rule": "polyak", "L": 2.0, "rho": 1.25, "delta": 1.0, "beta": 0.9, "c": 0.75, "gamma_max": 1e-4, "gap0": 3.0},
    "convex_almost_sure": {"rule": "polyak", "L": 2.0, "beta": 0.9, "c": 0.75, "gamma_max": 1.0, "dist0_sq": 4.0},
    "nonconvex_almost_sure": {"rule": "polyak", "L": 2.0, "rho": 1.25, "beta": 0.9, "c": 0.75, "gamma_max": 1e-4, "gap0": 3.0},
    "step_bounds": {"rule": "polyak", "L": 2.0, "beta": 0.9, "c": 0.75, "gamma_max": 1.0},
    "nonconvex_step_limit": {"rule": "polyak", "L": 2.0, "rho": 1.25, "beta": 0.9, "c": 0.75},
    "convex_diminishing": {"rule": "polyak", "L": 2.0, "schedules": LAWS, "c": 0.75, "sigma2": 0.1},
    "nonconvex_diminishing": {"rule": "polyak", "L": 2.0, "rho": 1.25, "delta": 1.0, "schedules": LAWS, "c": 0.75},
    "diminishing_step_bounds": {"rule": "polyak", "L": 2.0, "schedules": LAWS, "c": 0.75, "k": 3},
    "basic_inequality": {"beta": 0.9, "c": 0.75, "gap": 1.0},
    "diminishing_basic_inequality": {"eta": 0.5, "c": 0.75, "gap": 1.0},
}  # fmt: skip
"""Arguments that each function accepts; the tests below change one of them."""

OUT_OF_RANGE = {
    "L": [0.0, -1.0, nan, inf],
    "mu": [0.0, -1.0, nan, inf],
    "rho": [0.0, -1.0, nan, inf],
    "delta": [-1e-9, nan, inf],
    "beta": [-0.1, 1.0, 1.5, nan],
    "c": [0.0, -1.0, nan, inf],
    "gamma_max": [0.0, -1.0, nan, inf],
    "sigma2": [-1e-9, nan, inf],
    "dist0_sq": [-1.0, nan, inf],
    "gap0": [-1.0, nan, inf],
}

BROKEN = [
    ("strongly_convex", {"mu": 3.0}, r"Theorem 1 needs mu <= L, got mu = 3.0, L = 2.0"),
    ("strongly_convex", {"c": 0.49}, r"Theorem 1 needs c >= 1/2, got c = 0.49"),
    ("convex", {"c": 0.5}, r"Theorem 2 needs c > 1/2, got c = 0.5"),
    ("convex_almost_sure", {"c": 0.5}, r"Theorem 4: Theorem 2 needs c > 1/2, got c = 0.5"),
    ("nonconvex", {"c": 0.3}, r"Theorem 3 needs c >= rho / 4, got c = 0.3, rho = 1.25"),
    ("nonconvex", {"gamma_max": 1.0}, r"Theorem 3 needs gamma_max < limit, got gamma_max = 1.0, limit = 0.0006"),
    (
        "nonconvex",
        {"rule": "armijo", "omega": 0.9, "rho": 20.0},
        r"Theorem 3 needs c > 1 - 1 / \(omega rho\), got c = 0.75, omega = 0.9, rho = 20.0, .* = 0.944",
    ),
    ("convex", {"rule": "armijo"}, r"Theorem 2 needs omega in \(0, 1\) for the Armijo rule, got omega = None"),
    ("convex", {"rule": "armijo", "omega": 1.0}, r"Theorem 2 needs omega in \(0, 1\), got omega = 1.0"),
    ("convex", {"rule": "armijo", "omega": 0.5, "c": 1.0}, r"Theorem 2 needs c in \(0, 1\), got c = 1.0"),
    ("convex", {"rule": "adam"}, r"rule must be one of 'polyak', 'armijo', got 'adam'"),
    (
        "convex_diminishing",
        {"schedules": Schedules.power_laws(0.5, 0.4, 0.9, 1.0, 0.02, 0.3)},
        r"Theorem 6: schedule breaks item \(i\) .* beta_power > 1, got 1",
    ),
    (
        "convex_diminishing",
        {"schedules": Schedules.power_laws(1.2, 0.4, 0.9, 1.1, 0.02, 0.3), "c": 0.1, "K": 0},
        r"Theorem 6 needs c >= sup over k > K of .*, got c = 0.1, sup = 0.8.*, K = 0",
    ),
    (
        "nonconvex_diminishing",
        {"schedules": Schedules.power_laws(0.5, 0.4, 1.0, 1.1, 0.02, 0.3)},
        r"Theorem 7 needs beta0 in \[0, 1\), got beta0 = 1.0",
    ),
]  # fmt: skip
"""function, changed arguments, message."""
