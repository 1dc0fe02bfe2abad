"""The problems of Section 5 of the paper, and the smallest problem that biases a step.

Whoever changes the numbers drawn here must raise the ``version`` of the class that holds them.
"""

from typing import Literal

import numpy as np

from heavystep.arrays import Array
from heavystep.problems.cosine import Cosine
from heavystep.problems.least_squares import LeastSquares
from heavystep.validation import NON_NEGATIVE, choice, real

N, DIM = 512, 20


def paper_least_squares(noise: float = 0.0, seed: int = 0) -> LeastSquares:
    r"""The convex problem: n = 512 rows in d = 20 dimensions.

    .. math:: b = A\theta^\star + \nu\epsilon, \qquad A^\top\epsilon = 0, \quad \|\epsilon\|^2 = n

    so that :math:`\sigma^2 = \nu^2/2`. Our choices where the paper leaves one: the entries of A
    are standard normal; :math:`\epsilon` is standard normal, projected off the range of A and
    scaled; runs start at 0. The same seed gives the same A, theta* and epsilon for every noise.

    Args:
        noise: :math:`\nu \ge 0`; the paper uses 0 and 0.3.
        seed: seed of A, theta* and epsilon.

    >>> round(paper_least_squares(noise=0.3).sigma2, 12), paper_least_squares().sigma2
    (0.045, 0.0)

    Reference: Zhang, Shi and Gu, Section 5.
    """
    real("noise", noise, NON_NEGATIVE, symbols={"noise": "nu"})
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((N, DIM))
    theta_star = rng.standard_normal(DIM)
    epsilon = off_range(rows, rng.standard_normal(N))
    epsilon *= np.sqrt(N) / np.linalg.norm(epsilon)
    return LeastSquares(rows, rows @ theta_star + noise * epsilon)


def off_range(matrix: Array, vector: Array) -> Array:
    """The part of ``vector`` orthogonal to the columns of ``matrix``."""
    basis, _ = np.linalg.qr(matrix)
    # Twice: the second pass removes what rounding left of the first.
    for _ in range(2):
        vector = vector - basis @ (basis.T @ vector)
    return vector


def paper_cosine(setting: Literal["strong_growth", "noise"], seed: int = 0) -> Cosine:
    r"""The non-convex problem: n = 512 terms in d = 20 dimensions, started at pi.

    ``"strong_growth"``: no tilt, scale 0.5 for the first 256 terms and 1.5 for the others;
    (rho, delta) = (1.25, 0). ``"noise"``: scale 1, 256 tilts of coordinates -0.3 or 0.3 with
    equal chance, then their opposites; (rho, delta) = (1, 1.8).

    Args:
        setting: ``"strong_growth"`` or ``"noise"``.
        seed: seed of the signs; ``"strong_growth"`` draws nothing.

    >>> problem = paper_cosine("noise")
    >>> problem.L, problem.rho, round(problem.delta, 12)
    (3.0, 1.0, 1.8)

    Reference: Zhang, Shi and Gu, Section 5.
    """
    choice("setting", setting, ("strong_growth", "noise"))
    if setting == "strong_growth":
        return Cosine(np.repeat([0.5, 1.5], N // 2), np.zeros((N, DIM)))
    half = np.random.default_rng(seed).choice([-0.3, 0.3], size=(N // 2, DIM))
    return Cosine(np.ones(N), np.concatenate([half, -half]))


def two_samples() -> LeastSquares:
    r"""Two losses with two minima, :math:`\tfrac12(t-1)^2` and :math:`5(t+1)^2`, started at 3.

    The smallest problem on which a step that goes on depending on its sample comes to rest at a
    wrong point: F is least at t = -9/11, and a rule that takes share * min(ratio, cap) stops where
    E[min(ratio, cap) g] = 0. Both exact least values are 0.

    >>> round(float(two_samples().theta_star[0]), 6), two_samples().f_star.tolist()
    (-0.818182, [0.0, 0.0])
    """
    return LeastSquares([[1.0], [np.sqrt(10.0)]], [1.0, -np.sqrt(10.0)], theta0=[3.0])
