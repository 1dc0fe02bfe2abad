"""Minima of the terms and of the sum."""

import numpy as np
import pytest

from heavystep.problems import Cosine, LeastSquares, LogisticRegression, paper_cosine
from heavystep.problems.cosine import tilted_minimum
from heavystep.problems.logistic import stationary
from tests.helpers.finite_sums import (
    CASES,
    LEAST_SQUARES,
    every_gradient,
    features,
    logistic,
    points,
)

EPS = np.finfo(float).eps


def test_no_point_is_below_the_infimum(problem):
    i = np.arange(problem.n)
    for scale in (0.1, 3.0, 40.0):
        for theta in points(problem, 50, scale):
            assert np.all(problem.losses(theta, i) - problem.f_star >= -1e-11)


@pytest.mark.parametrize("name", LEAST_SQUARES)
def test_infima_of_least_squares_terms(name):
    problem = CASES[name].make()
    lengths = np.maximum(np.sum(problem.A**2, axis=1, keepdims=True), EPS)
    fits = problem.A * problem.b[:, None] / lengths
    attained = problem.losses(fits, np.arange(problem.n))
    np.testing.assert_allclose(attained, problem.f_star, rtol=1e-14, atol=1e-28)


TILTS = [0.0, 0.1, 2.4, 2.5, 3.0, np.pi, 3.2, 6.0, 2 * np.pi, 9.4, 3 * np.pi, 20.0]


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("z", TILTS)
def test_tilted_minimum_against_a_grid(z, sign):
    def tilted(t):
        return t**2 / 2 + 4 * np.sin(t / 2) ** 2 - sign * z * t

    coarse = np.linspace(-z - 3.0, z + 3.0, 200_001)
    best = coarse[tilted(coarse).argmin()]
    width = coarse[1] - coarse[0]
    lowest = tilted(best + np.linspace(-width, width, 20_001)).min()
    exact = float(tilted_minimum(np.array(sign * z)))
    assert exact == pytest.approx(lowest, abs=1e-12)
    assert exact <= lowest + 4 * EPS * (1.0 + z**2)


def test_minima_of_cosine_terms():
    assert np.all(paper_cosine("strong_growth").f_star == 0.0)
    problem = Cosine(s=[0.5, 2.0], xi=[[1.2, -10.0], [-1.2, 10.0]])
    expected = [
        0.5 * (tilted_minimum(np.array(2.4)) + tilted_minimum(np.array(20.0))),
        2.0 * (tilted_minimum(np.array(0.6)) + tilted_minimum(np.array(5.0))),
    ]
    np.testing.assert_allclose(problem.f_star, expected, rtol=1e-14)


@pytest.mark.parametrize("l2", [1e-12, 1e-3, 0.7, 1e4])
def test_minima_of_penalised_logistic_terms(l2):
    a = np.array([[0.0, 0.0], [3.0, -4.0], [1e-3, 0.0], [200.0, 1.0]])
    problem = LogisticRegression(a, [1, -1, 1, -1], l2=l2)
    lengths = np.linalg.norm(a, axis=1)
    assert problem.f_star[0] == pytest.approx(np.log(2.0), rel=1e-15)
    for i in range(1, len(a)):
        unit = problem.y[i] * a[i] / lengths[i]
        reach = 1.1 * lengths[i] / l2  # where the penalty alone would hold the gradient
        grid = np.minimum(reach, 60.0 / lengths[i]) * np.linspace(0.0, 1.0, 4001)
        for _ in range(4):
            values = problem.losses(grid[:, None] * unit, np.full(grid.shape, i))
            best, width = grid[values.argmin()], grid[1] - grid[0]
            grid = np.maximum(best + width * np.linspace(-1.0, 1.0, 4001), 0.0)
        assert problem.f_star[i] == pytest.approx(values.min(), rel=1e-12, abs=0)
        assert problem.f_star[i] <= values.min() * (1 + 100 * EPS)


def test_minimiser_is_stationary(problem):
    terms = every_gradient(problem, problem.theta_star)
    size = np.abs(terms).mean(axis=0) + problem.L * np.abs(problem.theta_star)
    assert np.all(np.abs(terms.mean(axis=0)) <= 40 * EPS * size)
    away = problem.objective(points(problem, 200, scale=0.3))
    assert np.all(away > problem.F_star)
    assert np.all(problem.gap(points(problem, 200, scale=0.3)) > 0.0)


def test_sigma2(problem, case):
    i = np.arange(problem.n)
    spread = np.mean(problem.losses(problem.theta_star, i) - problem.f_star)
    assert problem.sigma2 == pytest.approx(spread, rel=1e-12, abs=1e-25)
    assert (problem.sigma2 == 0.0) == case.interpolates


@pytest.mark.parametrize(
    ("n", "dim", "decades"), [(5, 1, 0), (20, 20, 3), (3, 3, 8), (200, 10, 8), (3000, 30, 4)]
)
@pytest.mark.parametrize("seed", range(4))
def test_interpolation_is_told_from_noise(n, dim, decades, seed):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((n, dim)) * np.logspace(0, -decades, dim)
    a = a @ np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    b = a @ rng.standard_normal(dim)
    assert LeastSquares(a, b).sigma2 == 0.0
    if n > dim:
        noise = 1e-9 * np.linalg.norm(b) / np.sqrt(n)
        assert LeastSquares(a, b + noise * rng.standard_normal(n)).sigma2 > 0.0


QUASI = np.array([[1.0, 0.0], [-1.0, 0.0], [0.5, 1.0], [-0.5, 2.0]])
NO_MINIMISER = {
    "separable": (features(3), np.sign(features(3) @ [1.0, 2.0, -1.0, 0.5]), "no minimiser: .*separable"),
    "separable but for a zero row": ([[1.0], [2.0], [0.0]], [1, 1, -1], "no minimiser: .*separable"),
    "weakly separable": (QUASI, [1, 1, 1, 1], "no minimiser to working precision: .*margins of"),
    "a repeated column": (features(3)[:, [0, 1, 0]], np.tile([1, -1], 20), "no unique minimiser: .*rank 2 < d = 3"),
    "fewer rows than columns": ([[1.0, 2.0]], [1], "no unique minimiser: .*rank 1 < d = 2"),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_MINIMISER)
def test_no_minimiser(name):
    a, y, message = NO_MINIMISER[name]
    problem = LogisticRegression(a, y)
    sqnorms = np.sum(np.square(a), axis=1)
    assert pytest.approx(sqnorms.max() / 4, rel=1e-15) == problem.L
    assert (problem.rho, problem.delta) == (1.0, pytest.approx(sqnorms.mean(), rel=1e-15))
    for _ in range(2):
        with pytest.raises(ValueError, match=message):
            _ = problem.theta_star
    penalised = LogisticRegression(a, y, l2=1e-6)
    residue = np.linalg.norm(penalised.full_gradient(penalised.theta_star))
    assert residue <= 1e-14 * (1.0 + np.linalg.norm(penalised.theta_star))


@pytest.mark.parametrize("seed", range(40))
def test_minimiser_exists_exactly_where_no_direction_separates(seed):
    linprog = pytest.importorskip("scipy.optimize").linprog
    rng = np.random.default_rng(seed)
    refused = []
    for _ in range(10):
        z = rng.integers(-2, 3, (rng.integers(3, 9), 2)).astype(float)
        z = np.concatenate([z, [[1.0, 1.0], [1.0, -1.0]]])  # full rank
        n, dim = z.shape
        # Some theta has all margins >= 0 and, scaled, their sum >= 1.
        bounds = np.append(np.zeros(n), -1.0)
        found = linprog(np.zeros(dim), np.vstack([-z, -z.sum(axis=0)]), bounds, bounds=(None, None))
        try:
            _ = LogisticRegression(z, np.ones(n)).theta_star
            refused.append(False)
        except ValueError:
            refused.append(True)
        assert refused[-1] == (found.status == 0), z


def test_badly_scaled_columns_are_fitted():
    problem = logistic(0.0)
    scale = np.array([1e-8, 1.0, 1e8, 1e3])
    scaled = LogisticRegression(problem.A * scale, problem.y)
    np.testing.assert_allclose(scaled.theta_star * scale, problem.theta_star, rtol=1e-12)


def test_fit_where_full_newton_steps_diverge():
    z = np.array([[-0.5, -0.2], [-0.4, 40.5], [63.9, -0.3], [1.2, 2.6]])
    problem = LogisticRegression(np.repeat(z, [3, 17, 1, 4], axis=0), np.ones(25))
    np.testing.assert_allclose(problem.theta_star, [0.07642668, 1.26002279], rtol=1e-6)


@pytest.mark.parametrize("l2", [0.0, 0.05])
def test_a_point_beside_the_minimiser_is_not_stationary(l2):
    problem = logistic(l2)
    rows = problem.y[:, None] * problem.A
    assert stationary(problem.theta_star, rows, l2)
    for shift in 1e-11 * np.eye(problem.dim):
        assert not stationary(problem.theta_star + shift, rows, l2)
