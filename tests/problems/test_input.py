"""Input that makes no problem is refused; a problem keeps its own copy."""

import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from heavystep.problems import (
    Cosine,
    LeastSquares,
    LogisticRegression,
    paper_cosine,
    paper_least_squares,
)
from tests.helpers.finite_sums import points

A, B, Y = [[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]], [1.0, 2.0, 3.0], [1, -1, 1]
S, XI = [1.0, 2.0], [[0.1, 0.2], [-0.1, -0.2]]
BAD = [
    (lambda: LeastSquares(np.ones((3, 2)), B), ValueError, "A must have full column rank 2, got rank 1"),
    (lambda: LeastSquares([[1.0, 2.0]], [1.0]), ValueError, "A must have full column rank 2, got rank 1"),
    (lambda: LeastSquares(np.zeros((3, 2)), B), ValueError, "rank 2, got rank 0"),
    (lambda: LeastSquares([[1.0, np.nan]], [1.0]), ValueError, r"A must be finite, got nan at index \(0, 1\)"),
    (lambda: LeastSquares(A, [1.0, np.inf, 3.0]), ValueError, r"b must be finite, got inf at index \(1,\)"),
    (lambda: LeastSquares(A, [1.0]), ValueError, r"b must have shape \(3,\) to match the rows of A"),
    (lambda: LeastSquares([1.0], [1.0]), ValueError, r"A must have 2 dimension\(s\), got shape \(1,\)"),
    (lambda: LeastSquares(np.ones((0, 2)), []), ValueError, "A must not be empty"),
    (lambda: LeastSquares(A, B, theta0=[1.0]), ValueError, r"theta0 must have shape \(2,\) to match"),
    (lambda: LeastSquares(A, B, theta0=[1.0, np.nan]), ValueError, "theta0 must be finite"),
    (lambda: LeastSquares("text", B), TypeError, "A must be a dense array of real numbers, got 'text'"),
    (lambda: LeastSquares(A, [1.0, 2.0, 3.0j]), TypeError, "b must be a dense array of real numbers"),
    (lambda: LeastSquares(A, B).weak_growth(0.5), ValueError, r"rho must be > rho_0 = .*, got 0.5"),
    (lambda: LeastSquares(A, B).weak_growth(np.nan), ValueError, "rho must be > 0 and finite, got nan"),
    (lambda: Cosine([1.0, 0.0], XI), ValueError, "s must be > 0, got 0.0 at index 1"),
    (lambda: Cosine([1.0], XI), ValueError, r"s must have shape \(2,\) to match the rows of xi"),
    (lambda: Cosine(S, [[0.1], [-0.1001]]), ValueError, "xi must have mean 0, got a mean of size 5e-05"),
    (lambda: Cosine(S, [[0.1], [np.inf]]), ValueError, "xi must be finite"),
    (lambda: Cosine(S, XI, theta0=[[0.0, 0.0]]), ValueError, "theta0 must have 1 dimension"),
    (lambda: LogisticRegression(A, [0, 1, 1]), ValueError, r"labels -1 and \+1 only, found 0, 1"),
    (lambda: LogisticRegression(A, [1, 2, 3]), ValueError, r"labels -1 and \+1 only, found 1, 2, 3"),
    (lambda: LogisticRegression(A, Y, l2=-1.0), ValueError, "l2 must be >= 0 and finite, got -1.0"),
    (lambda: LogisticRegression(A, Y, l2="1"), TypeError, "l2 must be a real number"),
    (lambda: LogisticRegression(A, [1, -1]), ValueError, r"y must have shape \(3,\) to match the rows of A"),
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
    for array in (problem.A, problem.b, problem.theta0, problem.theta_star, problem.f_star):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    with pytest.raises(FrozenInstanceError):
        problem.b = a
    assert problem.theta_star is problem.theta_star
    np.testing.assert_array_equal(problem.theta_star, before)


def test_problems_travel_between_processes(problem):
    copy = pickle.loads(pickle.dumps(problem))
    theta = points(problem, 3)
    np.testing.assert_array_equal(copy.objective(theta), problem.objective(theta))
    assert (copy.L, copy.rho, copy.sigma2) == (problem.L, problem.rho, problem.sigma2)
