"""Small finite sums, anisotropic, with infima that are not 0 but for the first."""

import numpy as np

from heavystep.problems import Cosine, LeastSquares, LogisticRegression

RNG = np.random.default_rng(20)
SCALES = np.array([0.3, 1.0, 1.7, 0.6])
A = RNG.normal(size=(24, 4)) * SCALES
OPTIMUM = np.array([1.0, -2.0, 0.5, 3.0])
NOISE = 0.4 * RNG.normal(size=24)
XI = RNG.normal(size=(12, 4)) * SCALES
PROBLEMS = {
    "least squares": LeastSquares(A, A @ OPTIMUM + NOISE, theta0=[3.0, 1.0, -1.0, 0.0]),
    "logistic": LogisticRegression(
        A, np.sign(A @ OPTIMUM + 0.5 * NOISE), l2=0.01, theta0=[-1.0, 1.0, 0.3, -0.2]
    ),
    "cosine": Cosine(
        RNG.uniform(0.5, 1.5, size=24), np.concatenate([XI, -XI]), theta0=[1.5, -0.7, 2.2, 3.0]
    ),
}


def index_sequence(length, seed=3):
    return np.random.default_rng(seed).integers(0, 24, size=length)
