"""Finite sums: values and gradients, constants, minima, the problems of Section 5, refused input."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from scipy.sparse import csr_array

from heavystep import problems
from heavystep.problems import (
    Cosine,
    LeastSquares,
    LogisticRegression,
    SparseLogistic,
    paper_cosine,
    paper_least_squares,
)
from heavystep.problems.cosine import tilted_minimum
from heavystep.problems.logistic import row_norms, sigmoid, softplus, stationary


def features(seed):
    """Anisotropic, off-centre and correlated."""
    rows = np.random.default_rng(seed).standard_normal((40, 4)) + 0.5
    return rows * [1.0, 0.3, 2.0, 0.7] @ (np.eye(4) + 0.4 * np.eye(4, k=1))


def least_squares(noise, zero_row=False):
    a = features(1)
    if zero_row:
        a[7] = 0.0
    b = a @ np.array([1.0, -2.0, 0.5, 3.0])
    b += noise * np.random.default_rng(1).standard_normal(len(a))
    b[7] += 5.0 * zero_row
    return LeastSquares(a, b, theta0=[0.3, -1.0, 2.0, 0.1])


def cosine(pulled):
    """Tilts of every size against scales that differ; ``pulled``: mean of s xi is not 0."""
    rng = np.random.default_rng(2)
    half = 3.0 * rng.standard_normal((6, 3))
    s = rng.uniform(0.4, 2.0, 12 if pulled else 6)
    return Cosine(s if pulled else np.tile(s, 2), np.concatenate([half, -half]))


def logistic(l2):
    a, rng = features(3), np.random.default_rng(3)
    chance = 1.0 / (1.0 + np.exp(-a @ np.array([1.0, -0.5, 0.3, 0.2])))
    y = np.where(rng.random(len(a)) < chance, 1.0, -1.0)
    a[5] = 0.0
    return LogisticRegression(a, y, l2=l2, theta0=[0.1, 0.2, -0.3, 0.4])


INTERPOLATING = {
    "least squares, fitted": least_squares(0.0),
    "least squares, fitted but for a zero row": least_squares(0.0, zero_row=True),
    "paper, interpolation": paper_least_squares(),
    "paper, strong growth": paper_cosine("strong_growth"),
}
CASES = {
    **INTERPOLATING,
    "least squares, noisy": least_squares(0.7),
    "least squares, zero row": least_squares(0.7, zero_row=True),
    "cosine": cosine(pulled=False),
    "cosine, pulled": cosine(pulled=True),
    "logistic": logistic(0.05),
    "logistic, small penalty": logistic(1e-6),
    "paper, noise": paper_least_squares(noise=0.3),
    "paper, perturbed": paper_cosine("noise"),
}
LEAST_SQUARES = [name for name, problem in CASES.items() if isinstance(problem, LeastSquares)]


@pytest.fixture(params=CASES.values(), ids=list(CASES))
def problem(request):
    return request.param


def points(problem, count, scale=1.0):
    rng = np.random.default_rng(0)
    return problem.theta_star + 0.2 + scale * rng.standard_normal((count, problem.dim))


def every_gradient(problem, theta):
    """(n, d) gradients of all terms at one point."""
    return problem.gradients(theta, np.arange(problem.n))


def derivative(function, theta):
    """By central differences of fourth order: the last axis is that of theta."""
    h = 1e-4
    columns = [
        (8 * (function(theta + h * e) - function(theta - h * e))
         - function(theta + 2 * h * e) + function(theta - 2 * h * e)) / (12 * h)
        for e in np.eye(len(theta))
    ]  # fmt: skip
    return np.stack(columns, axis=-1)


def curvatures(problem, theta):
    return np.linalg.eigvalsh(derivative(problem.full_gradient, theta))


def test_gradients_are_derivatives(problem):
    for i, theta in enumerate(points(problem, 5)):
        scale, slope = 1.0 + np.abs(problem.losses(theta, i)), problem.gradients(theta, i)
        wanted = derivative(lambda x: problem.losses(x, i), theta)
        np.testing.assert_allclose(slope, wanted, rtol=1e-8, atol=1e-10 * scale)


def test_sum_is_the_mean_of_its_terms_and_none_is_below_its_infimum(problem):
    for theta in np.concatenate([points(problem, 20, scale) for scale in (0.1, 2.0, 40.0)]):
        losses, slopes = problem.losses(theta, np.arange(problem.n)), every_gradient(problem, theta)
        assert problem.objective(theta) == pytest.approx(losses.mean(), rel=1e-12)
        np.testing.assert_allclose(problem.full_gradient(theta), slopes.mean(axis=0), atol=1e-11)
        assert np.all(losses - problem.f_star >= -1e-11)


@pytest.mark.parametrize("method", ["objective", "full_gradient", "gap", "losses", "gradients"])
def test_batched_points_and_indices(problem, method):
    theta, call = points(problem, 6).reshape(2, 3, -1), getattr(problem, method)
    i = np.array([[0, 3, 7], [problem.n - 1, 5, 0]])
    given = (theta, i) if method in ("losses", "gradients") else (theta,)
    apart = [[call(*(each[a, b] for each in given)) for b in range(3)] for a in range(2)]
    np.testing.assert_allclose(call(*given), apart, rtol=1e-12, atol=1e-14)


def test_gap(problem):
    theta = points(problem, 20)
    plain = problem.objective(theta) - problem.F_star
    np.testing.assert_allclose(problem.gap(theta), plain, rtol=1e-9, atol=1e-13)
    # Close to the minimiser a difference of two losses would be rounding only.
    direction = np.random.default_rng(4).standard_normal(problem.dim)
    hessian = derivative(problem.full_gradient, problem.theta_star)
    near = problem.gap(problem.theta_star + 1e-7 * direction)
    assert near == pytest.approx(0.5e-14 * direction @ hessian @ direction, rel=1e-6, abs=0)
    assert problem.gap(problem.theta_star) == 0.0


def test_logistic_far_out_neither_overflows_nor_vanishes():
    problem = LogisticRegression([[1.0], [-1.0]], [1, 1], l2=1e-9)
    theta = np.array([[700.0], [1e6], [-1e6]])
    np.testing.assert_allclose(softplus(-theta[:, 0]), [np.exp(-700.0), 0.0, 1e6])
    np.testing.assert_allclose(sigmoid(-theta[:, 0]), [np.exp(-700.0), 0.0, 1.0])
    np.testing.assert_allclose(problem.gap(theta), [350.0, 5e5, 5e5], rtol=1e-2)


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
    hessians = derivative(lambda x: every_gradient(problem, x), np.zeros(problem.dim))
    assert np.linalg.norm(hessians, 2, axis=(1, 2)).max() == pytest.approx(problem.L, rel=1e-8)


def test_mu_of_logistic():
    problem = logistic(0.05)
    far = curvatures(problem, np.array([400.0, -300.0, 1100.0, 700.0]))
    assert far[0] == pytest.approx(problem.mu, rel=1e-6)
    for theta in points(problem, 20, scale=3.0):
        assert curvatures(problem, theta)[0] >= problem.mu * (1 - 1e-8)


def test_convexity(problem):
    line = np.linspace(0.0, np.pi, 5)[:, None] * np.ones(problem.dim)
    lowest = min(curvatures(problem, theta)[0] for theta in line)
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


@pytest.mark.parametrize("name", LEAST_SQUARES)
def test_growth_of_least_squares_is_reached(name):
    """The smallest rho far out, and the smallest delta at its maximiser."""
    problem, fitted = CASES[name], name in INTERPOLATING
    a, lengths = problem.A, np.sum(problem.A**2, axis=1)
    h, q = a.T @ a / problem.n, (a.T * lengths) @ a / problem.n
    values, vectors = np.linalg.eig(np.linalg.solve(h @ h, q))
    rho_0, steepest = values.real.max(), vectors[:, values.real.argmax()].real
    far = problem.theta_star + 1e9 * steepest
    ratio = second_moment(problem, far) / np.sum(problem.full_gradient(far) ** 2)
    assert ratio == pytest.approx(rho_0, rel=1e-7)
    assert problem.rho == pytest.approx(rho_0 * (1.0 if fitted else 2.0), rel=1e-10)
    assert (problem.delta == 0.0) == fitted
    if not fitted:
        w = a.T @ (lengths * problem.residuals) / problem.n
        maximiser = problem.theta_star + np.linalg.solve(problem.rho * h @ h - q, w)
        assert excess(problem, maximiser, problem.rho) == pytest.approx(problem.delta, rel=1e-9)


def test_growth_of_cosine_is_an_equality():
    problem = cosine(pulled=False)
    for theta in points(problem, 100, scale=5.0):
        left = second_moment(problem, theta)
        assert excess(problem, theta, problem.rho) == pytest.approx(problem.delta, abs=1e-12 * left)
    assert problem.rho == pytest.approx(np.mean(problem.s**2) / np.mean(problem.s) ** 2, rel=1e-14)


def test_delta_of_pulled_cosine_is_reached():
    problem = cosine(pulled=True)
    pull = np.mean(problem.s[:, None] * problem.xi, axis=0)
    phi = -pull / (problem.rho * np.mean(problem.s) ** 2 - np.mean(problem.s**2))
    low, high = phi - 2.0, phi + 2.0
    for _ in range(100):  # t + 2 sin t = phi, by bisection
        middle = 0.5 * (low + high)
        right = middle + 2.0 * np.sin(middle) > phi
        low, high = np.where(right, low, middle), np.where(right, middle, high)
    assert excess(problem, low, problem.rho) == pytest.approx(problem.delta, rel=1e-9)


EPS = np.finfo(float).eps


@pytest.mark.parametrize("name", LEAST_SQUARES)
def test_infima_of_least_squares_terms(name):
    problem = CASES[name]
    lengths = np.maximum(np.sum(problem.A**2, axis=1, keepdims=True), EPS)
    attained = problem.losses(problem.A * problem.b[:, None] / lengths, np.arange(problem.n))
    np.testing.assert_allclose(attained, problem.f_star, rtol=1e-14, atol=1e-28)


@pytest.mark.parametrize("z", [0.0, 0.1, 2.5, -np.pi, 3.2, -6.0, 2 * np.pi, 9.4, -20.0])
def test_tilted_minimum_against_a_grid(z):
    def tilted(t):
        return t**2 / 2 + 4 * np.sin(t / 2) ** 2 - z * t

    coarse = np.linspace(-abs(z) - 3.0, abs(z) + 3.0, 200_001)
    best, width = coarse[tilted(coarse).argmin()], coarse[1] - coarse[0]
    lowest = tilted(best + np.linspace(-width, width, 20_001)).min()
    exact = float(tilted_minimum(np.array(z)))
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
    away = points(problem, 200, scale=0.3)
    assert np.all(problem.objective(away) > problem.F_star)
    assert np.all(problem.gap(away) > 0.0)


@pytest.mark.parametrize("name", CASES)
def test_sigma2(name):
    problem = CASES[name]
    spread = np.mean(problem.losses(problem.theta_star, np.arange(problem.n)) - problem.f_star)
    assert problem.sigma2 == pytest.approx(spread, rel=1e-12, abs=1e-25)
    assert (problem.sigma2 == 0.0) == (name in INTERPOLATING)


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


def test_a_point_beside_the_minimiser_is_not_stationary():
    problem, l2 = logistic(0.05), 0.05
    rows = problem.y[:, None] * problem.A
    assert stationary(problem.theta_star, rows, l2)
    for shift in 1e-11 * np.eye(problem.dim):
        assert not stationary(problem.theta_star + shift, rows, l2)


def test_problems_of_section_5():
    noisy, fitted = paper_least_squares(noise=0.3, seed=3), paper_least_squares(seed=3)
    epsilon = (noisy.b - fitted.b) / 0.3
    assert epsilon @ epsilon == pytest.approx(512.0, rel=1e-12)
    np.testing.assert_allclose(noisy.A.T @ epsilon, 0.0, atol=1e-11)
    assert noisy.sigma2 == pytest.approx(0.045, rel=1e-12)
    assert not np.array_equal(fitted.A, paper_least_squares(seed=4).A)
    strong, noisy = paper_cosine("strong_growth"), paper_cosine("noise", seed=3)
    assert (strong.rho, strong.delta, strong.L, strong.sigma2) == (1.25, 0.0, 4.5, 0.0)
    assert (noisy.rho, noisy.delta, noisy.L) == (1.0, pytest.approx(1.8, rel=1e-14), 3.0)
    assert [np.sum(strong.s == value) for value in (0.5, 1.5)] == [256, 256]
    assert set(np.unique(noisy.xi)) == {-0.3, 0.3}
    assert strong.gap(strong.theta0) == pytest.approx(20 * (np.pi**2 / 2 + 4), rel=1e-14)
    assert not np.array_equal(noisy.xi, paper_cosine("noise", seed=4).xi)


A, B, Y = [[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]], [1.0, 2.0, 3.0], [1, -1, 1]
S, XI = [1.0, 2.0], [[0.1, 0.2], [-0.1, -0.2]]
OUTSIDE = csr_array(A)
OUTSIDE.indices[-1] = 2  # of two columns
BAD = [
    (lambda: LeastSquares(np.ones((3, 2)), B), ValueError, "A must have full column rank 2, got rank 1"),

    (lambda: LeastSquares([[1.0, np.nan]], [1.0]), ValueError, r"A must be finite, got nan at index \(0, 1\)"),
    (lambda: LeastSquares(A, [1.0]), ValueError, r"b must have shape \(3,\) to match the rows of A"),
    (lambda: LeastSquares(np.ones((0, 2)), []), ValueError, "A must not be empty"),
    (lambda: LeastSquares(A, B, theta0=[1.0]), ValueError, r"theta0 must have shape \(2,\) to match"),

    (lambda: LeastSquares("text", B), TypeError, "A must be a dense array of real numbers, got 'text'"),

    (lambda: LeastSquares(A, [1.0, 2.0, 3.0j]), TypeError, "b must be a dense array of real numbers"),
    (lambda: Cosine([1.0, 0.0], XI), ValueError, "s must be > 0, got 0.0 at index 1"),
    (lambda: Cosine([1.0], XI), ValueError, r"s must have shape \(2,\) to match the rows of xi"),
    (lambda: Cosine(S, [[0.1], [-0.1001]]), ValueError, "xi must have mean 0, got a mean of size 5e-05"),
    (lambda: Cosine(S, XI, theta0=[[0.0, 0.0]]), ValueError, "theta0 must have 1 dimension"),
    (lambda: LogisticRegression(A, [1, 2, 3], 1.0), ValueError, r"labels -1 and \+1 only, found 1, 2, 3"),
    (lambda: LogisticRegression(A, Y, l2=-1.0), ValueError, "l2 must be > 0 and finite, got -1.0"),

    (lambda: LogisticRegression(A, Y, l2="1"), TypeError, "l2 must be a real number"),
    (lambda: LogisticRegression(A, [1, -1], 1.0), ValueError, r"y must have shape \(3,\) to match the rows of A"),
    (lambda: SparseLogistic(csr_array(A), Y, l2=-0.5), ValueError, "l2 must be >= 0, got -0.5"),
    (lambda: SparseLogistic(csr_array(A), Y, weights=[0, 0, 0]), ValueError, "weights must be >= 0 and not all 0"),
    (lambda: SparseLogistic(OUTSIDE, Y), ValueError, "indices"),
    (lambda: SparseLogistic(A, Y), TypeError, "rows must be a sparse matrix of scipy, got list"),
    (lambda: paper_cosine("weak"), ValueError, "setting must be one of 'strong_growth', 'noise', got 'weak'"),
    (lambda: paper_least_squares(noise=-0.3), ValueError, r"noise \(nu\) must be >= 0 and finite, got -0.3"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), BAD, ids=[row[2] for row in BAD])
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_a_problem_keeps_its_own_data():
    a = np.array(A)
    problem = LeastSquares(a, B)
    before = problem.theta_star.copy()
    a[0] = 100.0
    assert problem.A[0, 0] == 1.0
    for array in (problem.A, problem.theta0, problem.theta_star, problem.f_star):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    with pytest.raises(FrozenInstanceError):
        problem.b = a
    np.testing.assert_array_equal(problem.theta_star, before)


ROWS = [[1.0, 0.0, -2.0], [0.5, 3.0, 1.0], [0.0, -1.0, 0.25], [2.0, 1.0, 1.0]]
SIGNS = [1.0, -1.0, -1.0, 1.0]
SMALL = problems.LeastSquares(ROWS, [1.0, 2.0, -3.0, 0.5])
# A problem, its version, L, F and the norm of its gradient at 0.3 in every coordinate, the sum of f*.
PINNED = {
    "least squares": (SMALL, 1, 10.25, 1.287890625, 1.3093871195739823, 0.0),
    "cosine": (
        Cosine([0.5, 1.5], [[0.3, -0.2], [-0.3, 0.2]]),
        1, 4.5, 0.26865404349757593, 1.260121437143461, -0.05786112610769264,
    ),
    "logistic": (
        LogisticRegression(ROWS, SIGNS, l2=0.1),
        1, 2.6625, 0.8347770713050343, 0.6792390815516051, 0.6538827200038323,
    ),
    "sparse logistic": (
        SparseLogistic(csr_array(ROWS), SIGNS, l2=0.1),
        1, 2.6625, 0.8347770713050343, 0.6792390815516051, 0.0,
    ),
    "paper, least squares": (
        paper_least_squares(noise=0.3),
        1, 41.87142067306081, 18.945200739921454, 6.432460823068342, 0.0,
    ),
    "paper, cosine": (
        paper_cosine("noise"), 1, 3.0, 2.6865404349757585, 3.9848538697780387, -153.6854949675812,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PINNED)
def test_numbers_are_those_of_the_version(name):
    problem, version, *pinned = PINNED[name]
    assert vars(type(problem))["version"] == version, "pin the numbers of the new version"
    theta = np.full(problem.dim, 0.3)
    slope = np.linalg.norm(problem.full_gradient(theta))
    found = problem.L, problem.objective(theta), slope, problem.f_star.sum()
    # Sums of hundreds of terms, in an order that depends on the machine.
    assert found == pytest.approx(pinned, rel=1e-11), "raise the version"


def test_an_empty_row_cannot_be_fitted():
    rows = csr_array([[1.0, 0.0], [0.0, 0.0]])
    assert SparseLogistic(rows, [1.0, -1.0]).f_star.tolist() == [0.0, np.log(2.0)]


def test_lengths_of_rows_neither_overflow_nor_vanish():
    lengths = row_norms(csr_array([[3e200, 4e200], [0.0, 0.0], [3e-200, -4e-200]]))
    np.testing.assert_allclose(lengths, [5e200, 0.0, 5e-200], rtol=1e-15)
