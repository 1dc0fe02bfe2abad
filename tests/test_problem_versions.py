"""The numbers of each problem are those of its version: other numbers need another version."""

import inspect

import numpy as np
import pytest

from heavystep import problems
from heavystep.sparse import SparseRows

ROWS = [[1.0, 0.0, -2.0], [0.5, 3.0, 1.0], [0.0, -1.0, 0.25], [2.0, 1.0, 1.0]]
SIGNS = [1.0, -1.0, -1.0, 1.0]
PROBLEMS = {
    "least squares": lambda: problems.LeastSquares(ROWS, [1.0, 2.0, -3.0, 0.5]),
    "cosine": lambda: problems.Cosine([0.5, 1.5], [[0.3, -0.2], [-0.3, 0.2]]),
    "logistic": lambda: problems.LogisticRegression(ROWS, SIGNS, l2=0.1),
    "sparse logistic": lambda: problems.SparseLogistic(SparseRows.from_dense(ROWS), SIGNS, l2=0.1),
    "variance reduced": lambda: problems.VarianceReduced(
        problems.LeastSquares(ROWS, [1.0, 2.0, -3.0, 0.5])
    ),
    "paper, least squares": lambda: problems.paper_least_squares(noise=0.3),
    "paper, cosine": lambda: problems.paper_cosine("noise"),
}
# Version, L, F and the norm of its gradient at 0.3 in every coordinate, the sum of f*.
PINNED = {
    "least squares": (1, 10.25, 1.287890625, 1.3093871195739823, 0.0),
    "cosine": (1, 4.5, 0.26865404349757593, 1.260121437143461, -0.05786112610769264),
    "logistic": (1, 2.6625, 0.8347770713050343, 0.6792390815516051, 0.6538827200038323),
    "sparse logistic": (1, 2.6625, 0.8347770713050343, 0.6792390815516051, 0.0),
    "variance reduced": (1, 11.275, 1.287890625, 1.3093871195739823, 0.0),
    "paper, least squares": (1, 41.87142067306081, 18.945200739921454, 6.432460823068342, 0.0),
    "paper, cosine": (1, 3.0, 2.6865404349757585, 3.9848538697780387, -153.6854949675812),
}


def numbers(problem):
    theta = np.full(problem.dim, 0.3)
    slope = np.linalg.norm(problem.full_gradient(theta))
    return problem.L, float(problem.objective(theta)), float(slope), float(problem.f_star.sum())


@pytest.mark.parametrize("name", PROBLEMS)
def test_numbers_are_those_of_the_version(name):
    problem = PROBLEMS[name]()
    version, *pinned = PINNED[name]
    assert problem.version == version, "pin the numbers of the new version"
    # Sums of hundreds of terms, in an order that depends on the machine.
    assert numbers(problem) == pytest.approx(pinned, rel=1e-11), "raise the version"


def test_every_problem_has_a_version_of_its_own():
    classes = [
        c for c in vars(problems).values() if inspect.isclass(c) and c is not problems.FiniteSum
    ]
    assert {type(make()) for make in PROBLEMS.values()} == set(classes)
    for cls in classes:
        assert isinstance(vars(cls)["version"], int)
