"""Smoothness, strong convexity and weak growth are those of the terms."""

import numpy as np
import pytest

from tests.helpers.finite_sums import (
    CASES,
    LEAST_SQUARES,
    cosine,
    every_gradient,
    logistic,
    numerical_hessian,
    points,
)


def test_no_pair_of_points_exceeds_l(problem):
    rng = np.random.default_rng(5)
    for scale in (1e-3, 1.0, 30.0):
        for theta in points(problem, 10, scale):
            other = theta + scale * rng.standard_normal(problem.dim)
            change = every_gradient(problem, theta) - every_gradient(problem, other)
            lipschitz = np.linalg.norm(change, axis=1) / np.linalg.norm(theta - other)
            assert lipschitz.max() <= problem.L * (1 + 1e-10)


def test_l_is_attained(problem):
    # The curvature of every term is largest at 0 (least squares: anywhere).
    largest = max(
        np.linalg.norm(
            numerical_hessian(lambda x: problem.gradients(x, i), np.zeros(problem.dim)), 2
        )
        for i in range(problem.n)
    )
    assert largest == pytest.approx(problem.L, rel=1e-8)


def test_mu_of_logistic():
    problem = logistic(0.05)
    far = numerical_hessian(problem.full_gradient, np.array([400.0, -300.0, 1100.0, 700.0]))
    assert np.linalg.eigvalsh(far)[0] == pytest.approx(problem.mu, rel=1e-6)
    for theta in points(problem, 20, scale=3.0):
        hessian = numerical_hessian(problem.full_gradient, theta)
        assert np.linalg.eigvalsh(hessian)[0] >= problem.mu * (1 - 1e-8)
    assert logistic(0.0).mu == 0.0


def test_convexity(problem):
    lowest = min(
        np.linalg.eigvalsh(numerical_hessian(problem.full_gradient, theta))[0]
        for theta in np.linspace(0.0, np.pi, 5)[:, None] * np.ones(problem.dim)
    )
    assert problem.convex == (lowest > -1e-8)
    assert problem.mu <= max(lowest, 0.0) * (1 + 1e-8)


def second_moment(problem, theta):
    return np.mean(np.sum(every_gradient(problem, theta) ** 2, axis=1))


def excess(problem, theta, rho):
    """E||grad f||^2 - rho ||grad F||^2, whose supremum is delta."""
    return second_moment(problem, theta) - rho * np.sum(problem.full_gradient(theta) ** 2)


@pytest.mark.parametrize("scale", [1e-6, 1e-2, 1.0, 10.0, 1e3])
def test_weak_growth(problem, scale):
    for theta in points(problem, 300, scale):
        for x in (theta, theta - 0.2):
            left = second_moment(problem, x)
            assert excess(problem, x, problem.rho) <= problem.delta + 1e-12 * left


@pytest.mark.parametrize("factor", [1.01, 2.0, 50.0])
@pytest.mark.parametrize("name", LEAST_SQUARES)
def test_delta_of_least_squares_is_reached(name, factor):
    problem = CASES[name].make()
    a, r = problem.A, problem.residuals
    h, q = a.T @ a / problem.n, (a.T * np.sum(a**2, axis=1)) @ a / problem.n
    w = a.T @ (np.sum(a**2, axis=1) * r) / problem.n
    rho_0 = np.linalg.eigvals(np.linalg.solve(h @ h, q)).real.max()
    rho, delta = problem.weak_growth(factor * rho_0)
    maximiser = problem.theta_star + np.linalg.solve(rho * h @ h - q, w)
    assert excess(problem, maximiser, rho) == pytest.approx(delta, rel=1e-9, abs=1e-20)


@pytest.mark.parametrize("name", LEAST_SQUARES)
def test_rho_0_of_least_squares_is_reached(name):
    problem, case = CASES[name].make(), CASES[name]
    a = problem.A
    h, q = a.T @ a / problem.n, (a.T * np.sum(a**2, axis=1)) @ a / problem.n
    values, vectors = np.linalg.eig(np.linalg.solve(h @ h, q))
    rho_0, steepest = values.real.max(), vectors[:, values.real.argmax()].real
    far = problem.theta_star + 1e9 * steepest
    ratio = second_moment(problem, far) / np.sum(problem.full_gradient(far) ** 2)
    assert ratio == pytest.approx(rho_0, rel=1e-7)
    assert problem.rho == pytest.approx(rho_0 * (1.0 if case.interpolates else 2.0), rel=1e-10)
    assert (problem.delta == 0.0) == case.interpolates
    with pytest.raises(ValueError, match=r"rho must be >=? rho_0 = .* got "):
        problem.weak_growth(0.999 * rho_0)


def test_growth_of_cosine_is_an_equality():
    problem = cosine(pulled=False)
    for theta in points(problem, 100, scale=5.0):
        left = second_moment(problem, theta)
        assert excess(problem, theta, problem.rho) == pytest.approx(problem.delta, abs=1e-12 * left)
    assert problem.rho == pytest.approx(np.mean(problem.s**2) / np.mean(problem.s) ** 2, rel=1e-14)
    assert problem.weak_growth(7.0) == (7.0, problem.delta)
    with pytest.raises(ValueError, match="rho must be >= rho_0"):
        problem.weak_growth(0.999 * problem.rho)


def inverse_of_bowl_gradient(phi):
    """A t with t + 2 sin t = phi, by bisection."""
    low, high = phi - 2.0, phi + 2.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        right = middle + 2.0 * np.sin(middle) > phi
        low, high = np.where(right, low, middle), np.where(right, middle, high)
    return low


@pytest.mark.parametrize("factor", [1.01, 2.0, 50.0])
def test_delta_of_pulled_cosine_is_reached(factor):
    problem = cosine(pulled=True)
    rho_0 = problem.rho / 2.0
    rho, delta = problem.weak_growth(factor * rho_0)
    pull = np.mean(problem.s[:, None] * problem.xi, axis=0)
    phi = -pull / (rho * np.mean(problem.s) ** 2 - np.mean(problem.s**2))
    reached = excess(problem, inverse_of_bowl_gradient(phi), rho)
    assert reached == pytest.approx(delta, rel=1e-9)
    with pytest.raises(ValueError, match="rho must be > rho_0"):
        problem.weak_growth(rho_0)
