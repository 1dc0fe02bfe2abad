"""The results on runs: identities on random trajectories, exact expectations over all paths."""

import inspect
import re
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heavystep import theory
from heavystep.arrays import square
from heavystep.certificates.run import Run
from heavystep.certificates.theorems import BY_ID, QUANTITIES, sides
from heavystep.theory.registry import CONVEX as CONVEX_SAMPLES
from tests import reference
from tests.helpers.examples import examples
from tests.helpers.runs import recorded
from tests.helpers.theory_cases import (
    ADMISSIBLE_C,
    ANY,
    CONVEX,
    PATH_STEPS,
    cosine,
    every_path,
    log_uniform,
    make_problem,
    methods,
    momenta,
    problem_seeds,
    schedules,
)

ROUNDING = 1.0 + 1e-9


def first_problem(makers, seed, fits):
    """The problem of the first seed from this one on that fits: most may not."""
    return next(problem for s in count(seed) if fits(problem := make_problem(makers, s)))


@examples(300)
@given(seed=problem_seeds, beta=momenta, size=log_uniform(1e-3, 1e3))
def test_decoupling_identity(seed, beta, size):
    """Lemma 3 on random gradients and steps of any size, also negative ones."""
    rng = np.random.default_rng(seed)
    steps, dim = 8, 3
    gradients = rng.normal(size=(steps, dim))
    gamma = size * rng.normal(size=steps)
    point = rng.normal(size=dim)
    theta = previous = rng.normal(size=dim)
    iterates = [theta]
    for k in range(steps):
        theta, previous = theta - gamma[k] * gradients[k] + beta * (theta - previous), theta
        iterates.append(theta)
    before = np.array(iterates[:-1])
    sides = theory.decoupling_identity(before, gamma, gradients, beta=beta, point=point)
    assert (abs(sides.left - sides.right) <= 1e-9 * sides.scale).all()
    for k in range(steps):
        left, right = reference.decoupling_convex(before, gamma, gradients, beta, point, k)
        assert sides.left[k] == pytest.approx(left, abs=1e-9 * sides.scale[k])
        assert sides.right[k] == pytest.approx(right, abs=1e-9 * sides.scale[k])


@examples(300)
@given(seed=problem_seeds, beta=momenta, size=log_uniform(1e-3, 1e1))
def test_decoupling_inequality(seed, beta, size):
    """Lemma 4 for heavy ball with arbitrary steps, of both signs, on smooth sums."""
    problem = make_problem(ANY, seed)
    rng = np.random.default_rng([seed, 1])
    steps = 8
    gamma = size / problem.L * rng.normal(size=steps)
    theta = previous = problem.theta0
    iterates, gradients = [theta], []
    for k in range(steps):
        gradients.append(problem.gradients(theta, rng.integers(problem.n)))
        theta, previous = theta - gamma[k] * gradients[-1] + beta * (theta - previous), theta
        iterates.append(theta)
    iterates, gradients = np.array(iterates), np.array(gradients)
    full = problem.full_gradient(iterates[:-1])
    bound, scale = theory.decoupling_inequality(gamma, gradients, full, L=problem.L, beta=beta)
    value = problem.objective(iterates)
    change = np.diff(value)
    assert (change <= bound + 1e-9 * (scale + abs(value[1:]) + abs(value[:-1]))).all()
    for k in range(steps):
        want = reference.decoupling_nonconvex(gamma, gradients, full, beta, problem.L, k)
        assert bound[k] == pytest.approx(want, abs=1e-9 * scale[k])


@pytest.mark.parametrize("result", QUANTITIES)
@examples(500)
@given(
    seed=problem_seeds, method=methods(least_c=0.3), laws=schedules(), part=st.floats(0.01, 0.999),
    cap=log_uniform(1e-2, 1.0),
)  # fmt: skip
def test_bounds_hold_in_exact_expectation(result, seed, method, laws, part, cap):
    """The mean over all sample paths is the expectation; theorems that say nothing are passed over."""
    assumptions, names = (
        BY_ID[result].assumptions,
        inspect.signature(BY_ID[result].function).parameters,
    )
    convex, diminishing = CONVEX_SAMPLES in assumptions, "schedules" in names
    makers = CONVEX if convex else [cosine] if diminishing else ANY
    problem = first_problem(makers, seed, lambda p: convex or "delta" in names or p.delta == 0.0)
    gamma_max = method.pop("cap") / problem.L
    if not convex:
        method["c"] = ADMISSIBLE_C[method["rule"]](method["c"], method["omega"], problem.rho)
        if not diminishing:
            limit = theory.nonconvex_step_limit(**method, L=problem.L, rho=problem.rho)
            gamma_max = part * limit
    laws = laws._replace(gamma_max=laws.gamma_max._replace(initial=cap / problem.L))
    taken = (
        {**laws._asdict(), "scaling": "plain"}
        if diminishing
        else {"beta": method["beta"], "gamma_max": gamma_max}
    )
    paths = every_path(problem, 5 if problem.n == 3 else 4)
    record = recorded(problem, method["rule"], paths, c=method["c"], omega=method["omega"], **taken)
    run = Run(record, problem, schedules=laws)
    try:
        _, runs, bound = sides(result, run)
    except ValueError as reason:
        if re.search("for a finite bound|needs c >=? 1/2|holds from no K", str(reason)):
            return
        raise
    mean = runs.mean(axis=0)
    least = np.minimum.accumulate(mean) if QUANTITIES[result].least else mean
    floor = 1e-24 * (1.0 + problem.L) * (1.0 + run.dist_sq()[0, 0])
    assert (least <= bound * ROUNDING + floor).all()


@examples(700)
@given(seed=problem_seeds, method=methods(open_c=True))
def test_theorem_4_in_exact_expectation_and_on_every_path(seed, method):
    problem = first_problem(CONVEX, seed, lambda problem: problem.sigma2 == 0.0)
    method["gamma_max"] = method.pop("cap") / problem.L
    record = recorded(problem, method.pop("rule"), every_path(problem), **method)
    run = Run(record, problem)
    sums = theory.convex_almost_sure(
        record.rule, **method, L=problem.L, dist0_sq=float(run.dist_sq()[0, 0])
    )
    floor = 1e-24 * problem.L * (1.0 + run.dist_sq()[0, 0])
    assert problem.gap(run.before).mean(axis=0).sum() <= sums.expected_sum * ROUNDING + floor
    sampled = (record.gamma * (record.loss - record.f_star)).sum(axis=1)
    assert (sampled <= sums.sampled_sum * ROUNDING + floor).all()


@examples(300)
@given(seed=problem_seeds, share=st.floats(0.01, 1.0), power=st.floats(0.0, 1.0))
def test_theorem_l_in_exact_expectation(seed, share, power):
    """SHB-IMA as its two sequences, over all paths; the last iterate."""
    problem = make_problem(CONVEX, seed)
    paths = every_path(problem)
    etas = share / (4.0 * problem.L) * (1.0 + np.arange(PATH_STEPS + 1)) ** -power
    theta = z = np.broadcast_to(problem.theta0, (len(paths), problem.dim))
    start = float(square(problem.theta0 - problem.theta_star))
    slopes = problem.gradients(
        np.broadcast_to(problem.theta_star, (problem.n, problem.dim)), np.arange(problem.n)
    )
    promise = theory.last_iterate(
        L=problem.L, eta=etas[0], dist0_sq=start, noise=square(slopes).mean(), eta_power=power
    )
    for k in range(PATH_STEPS):
        gap = problem.gap(theta).mean()
        assert gap <= promise.bound(k) * ROUNDING
        z = z - etas[k] * problem.gradients(theta, paths[:, k])
        mixing = etas[: k + 1].sum() / (2.0 * etas[k + 1])
        theta = (mixing * theta + z) / (1.0 + mixing)


def test_theorem_l_by_hand():
    promise = theory.last_iterate(L=1.0, eta=0.25, dist0_sq=4.0, noise=3.0, eta_power=1.0)
    assert promise.bound(1) == pytest.approx((4.0 + 2.0 * 3.0 * (0.25**2 + 0.125**2)) / 0.375)


@examples(200)
@given(
    seed=problem_seeds, c_1=st.floats(0.05, 1.0), c_2=st.floats(1.0, 20.0), c=st.floats(0.05, 0.9)
)
def test_lemma_d_on_random_directions(seed, c_1, c_2, c):
    """Every direction that meets both conditions takes a step as long as the lemma says."""
    problem, rng = make_problem(ANY, seed), np.random.default_rng([seed, 2])
    i, omega, cap = rng.integers(problem.n), 0.7, 10.0 / problem.L
    g = problem.gradients(problem.theta0, i)
    across = rng.normal(size=problem.dim)
    across -= (across @ g) / (g @ g) * g
    slope = rng.uniform(c_1, c_2)
    d = slope * g + across / np.linalg.norm(across) * np.sqrt((c_2**2 - slope**2) * (g @ g))
    loss, t = problem.losses(problem.theta0, i), cap
    while problem.losses(problem.theta0 - t * d, i) > loss - c * t * (g @ d) + 1e-13 * abs(loss):
        t *= omega
    least = theory.directional_step(
        L=problem.L, c=c, omega=omega, cap=cap, least_slope=c_1, most_length=c_2
    )
    assert t >= least * ROUNDING**-1
