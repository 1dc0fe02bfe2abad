"""Values and gradients, each against an independent computation."""

import numpy as np
import pytest

from heavystep.problems import LogisticRegression
from tests.helpers.finite_sums import every_gradient, numerical_hessian, points


def test_gradients_are_derivatives(problem):
    h = 1e-4
    for i, theta in enumerate(points(problem, 5)):
        along = [
            8 * (problem.losses(theta + h * e, i) - problem.losses(theta - h * e, i))
            - problem.losses(theta + 2 * h * e, i) + problem.losses(theta - 2 * h * e, i)
            for e in np.eye(problem.dim)
        ]  # fmt: skip
        scale = 1.0 + np.abs(problem.losses(theta, i))
        np.testing.assert_allclose(
            problem.gradients(theta, i), np.array(along) / (12 * h), rtol=1e-8, atol=1e-10 * scale
        )


def test_sum_is_the_mean_of_its_terms(problem):
    i = np.arange(problem.n)
    for theta in points(problem, 4, scale=2.0):
        assert problem.objective(theta) == pytest.approx(problem.losses(theta, i).mean(), rel=1e-12)
        np.testing.assert_allclose(
            problem.full_gradient(theta), every_gradient(problem, theta).mean(axis=0), atol=1e-11
        )


@pytest.mark.parametrize("method", ["objective", "full_gradient", "gap"])
def test_batched_points(problem, method):
    theta = points(problem, 6).reshape(2, 3, -1)
    together = getattr(problem, method)(theta)
    apart = [[getattr(problem, method)(x) for x in row] for row in theta]
    np.testing.assert_allclose(together, apart, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("method", ["losses", "gradients"])
def test_batched_points_and_indices(problem, method):
    theta = points(problem, 6).reshape(2, 3, -1)
    i = np.array([[0, 3, 7], [problem.n - 1, 5, 0]])
    together = getattr(problem, method)(theta, i)
    apart = [[getattr(problem, method)(theta[a, b], i[a, b]) for b in range(3)] for a in range(2)]
    np.testing.assert_allclose(together, apart, rtol=1e-13, atol=1e-14)


def test_gap(problem):
    theta = points(problem, 20)
    plain = problem.objective(theta) - problem.F_star
    np.testing.assert_allclose(problem.gap(theta), plain, rtol=1e-9, atol=1e-13)
    # Close to the minimiser a difference of two losses would be rounding only.
    direction = np.random.default_rng(4).standard_normal(problem.dim)
    hessian = numerical_hessian(problem.full_gradient, problem.theta_star)
    near = problem.gap(problem.theta_star + 1e-7 * direction)
    assert near == pytest.approx(0.5e-14 * direction @ hessian @ direction, rel=1e-6, abs=0)
    assert problem.gap(problem.theta_star) == 0.0


def test_logistic_far_out_neither_overflows_nor_vanishes():
    problem = LogisticRegression([[1.0], [-1.0]], [1, 1])
    theta = np.array([[700.0], [1e6], [-1e6]])
    i = np.array([0, 0, 0])
    np.testing.assert_allclose(problem.losses(theta, i), [np.exp(-700.0), 0.0, 1e6])
    np.testing.assert_allclose(problem.gradients(theta, i)[:, 0], [-np.exp(-700.0), 0.0, -1.0])
    np.testing.assert_allclose(problem.gap(theta), [350.0, 5e5, 5e5], rtol=1e-2)
