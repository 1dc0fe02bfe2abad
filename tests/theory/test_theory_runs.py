"""The results on runs: identities on random trajectories, exact expectations over all paths."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from heavystep import theory
from heavystep.arrays import square
from heavystep.schedules import Schedules
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
    run,
    schedules,
)

K = np.arange(1, PATH_STEPS + 1)
ROUNDING = 1.0 + 1e-9


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


def test_decoupling_inequality_is_not_far_off():
    """On a quadratic with curvature L and one step the bound is attained up to its L/2."""
    gamma, g, L = np.array([0.1]), np.array([[2.0]]), 3.0
    bound, _ = theory.decoupling_inequality(gamma, g, g, L=L, beta=0.5)
    change = -0.1 * 4.0 + L / 2.0 * 0.04  # F(theta - 0.2) - F(theta) where F' = 2, F'' = 3
    assert bound[0] - change == pytest.approx(L / 2.0 * 0.04)


@examples(1000)
@given(seed=problem_seeds, method=methods(least_c=0.5))
def test_theorem_1_in_exact_expectation(seed, method):
    problem = make_problem(CONVEX, seed)
    gamma_max = method.pop("cap") / problem.L
    record = run(problem, method, every_path(problem), gamma_max)
    dist = square(record.iterates - problem.theta_star).mean(axis=0)
    promise = theory.strongly_convex(
        **method, L=problem.L, mu=problem.mu, gamma_max=gamma_max, sigma2=problem.sigma2,
        dist0_sq=dist[0],
    )  # fmt: skip
    floor = 1e-24 * (1.0 + dist[0])
    assert (dist <= promise.bound(np.arange(PATH_STEPS + 1)) * ROUNDING + floor).all()
    # The recursion itself, in expectation: e_{k+1} <= e_k - x sum of beta^(k-m) e_m.
    excess = dist - promise.residual
    x = problem.mu * promise.gamma_min
    for k in range(PATH_STEPS):
        history = sum(method["beta"] ** (k - m) * excess[m] for m in range(k + 1))
        assert excess[k + 1] <= excess[k] - x * history + 1e-9 * (dist[0] + promise.residual)


@examples(1000)
@given(seed=problem_seeds, method=methods(least_c=0.5, open_c=True))
def test_theorems_2_and_4_in_exact_expectation(seed, method):
    problem = make_problem(CONVEX, seed)
    gamma_max = method.pop("cap") / problem.L
    record = run(problem, method, every_path(problem), gamma_max)
    constants = dict(**method, L=problem.L, gamma_max=gamma_max)
    dist0_sq = float(square(problem.theta0 - problem.theta_star))
    before = record.iterates[:, :-1]
    average = np.cumsum(before, axis=1) / K[:, None]
    floor = 1e-24 * problem.L * (1.0 + dist0_sq)
    promise = theory.convex(**constants, sigma2=problem.sigma2, dist0_sq=dist0_sq)
    assert (problem.gap(average).mean(axis=0) <= promise.bound(K) * ROUNDING + floor).all()
    if problem.sigma2 == 0.0:
        sums = theory.convex_almost_sure(**constants, dist0_sq=dist0_sq)
        total = problem.gap(before).mean(axis=0).sum()
        assert total <= sums.expected_sum * ROUNDING + floor
        sampled = (record.gamma * (record.loss - record.f_star)).sum(axis=1)
        assert (sampled <= sums.sampled_sum * ROUNDING + floor).all()


@examples(1000)
@given(seed=problem_seeds, method=methods(least_c=0.05), part=st.floats(0.01, 0.999))
def test_theorems_3_and_5_in_exact_expectation(seed, method, part):
    problem = make_problem(ANY, seed)
    c = ADMISSIBLE_C[method["rule"]](method["c"], method["omega"], problem.rho)
    constants = {**method, "L": problem.L, "rho": problem.rho, "c": c}
    del constants["cap"]
    gamma_max = part * theory.nonconvex_step_limit(**constants)
    record = run(problem, {**method, "c": constants["c"]}, every_path(problem, 4), gamma_max)
    grad_sq = square(problem.full_gradient(record.iterates[:, :-1])).mean(axis=0)
    gap0 = float(problem.gap(problem.theta0))
    promise = theory.nonconvex(**constants, delta=problem.delta, gamma_max=gamma_max, gap0=gap0)
    k = np.arange(1, 5)
    assert (np.minimum.accumulate(grad_sq) <= promise.bound(k) * ROUNDING).all()
    assert ((1 + method["beta"]) * promise.s1 * np.cumsum(grad_sq)
            <= (gap0 + (k + 1) * promise.s2 * problem.delta) * ROUNDING).all()  # fmt: skip
    if problem.delta == 0.0:
        sums = theory.nonconvex_almost_sure(**constants, gamma_max=gamma_max, gap0=gap0)
        assert grad_sq.sum() <= sums.expected_sum * ROUNDING


@examples(500)
@given(
    seed=problem_seeds, method=methods(least_c=0.3), laws=schedules(), cap=log_uniform(1e-2, 1e1)
)
def test_theorem_6_in_exact_expectation(seed, method, laws, cap):
    problem = make_problem(CONVEX, seed)
    laws = _scaled(laws, cap / problem.L)
    record = _diminishing(problem, method, laws)
    constants = {"rule": method["rule"], "L": problem.L, "c": method["c"], "omega": method["omega"]}
    promise = theory.convex_diminishing(**constants, schedules=laws, sigma2=problem.sigma2)
    assume(promise.K == -1)
    after = record.iterates[:, 1:]
    weights = promise.weights(PATH_STEPS)[:, None]
    average = np.cumsum(weights * after, axis=1) / np.cumsum(weights, axis=0)
    dist0_sq = float(square(problem.theta0 - problem.theta_star))
    gap0 = float(problem.gap(problem.theta0))
    bound = promise.bound(K, dist0_sq=dist0_sq, gap0=gap0)
    gap = problem.gap(average).mean(axis=0)
    assert (gap <= bound * ROUNDING + 1e-24 * problem.L * (1.0 + dist0_sq)).all()


@examples(500)
@given(seed=problem_seeds, method=methods(least_c=0.1), laws=schedules(), cap=log_uniform(1e-2, 1))
def test_theorem_7_in_exact_expectation(seed, method, laws, cap):
    problem = make_problem([cosine], seed)
    laws = _scaled(laws, cap / problem.L)
    promise = theory.nonconvex_diminishing(
        method["rule"], L=problem.L, rho=problem.rho, delta=problem.delta, schedules=laws,
        c=method["c"], omega=method["omega"],
    )  # fmt: skip
    assume(promise.K == -1)
    record = _diminishing(problem, method, laws, steps=4)
    grad_sq = square(problem.full_gradient(record.iterates[:, 1:])).mean(axis=0)
    k = np.arange(1, 5)
    bound = promise.bound(k, gap0=float(problem.gap(problem.theta0)))
    assert (np.minimum.accumulate(grad_sq) <= bound * ROUNDING).all()


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


def _scaled(laws, cap):
    return laws._replace(gamma_max=laws.gamma_max._replace(initial=cap))


def _diminishing(problem, method, laws: Schedules, steps=PATH_STEPS):
    return recorded(
        problem, method["rule"], every_path(problem, steps), **laws._asdict(), c=method["c"],
        omega=method["omega"], scaling="plain",
    )  # fmt: skip
