"""Finite sums whose constants are exact: L, mu, rho, delta, sigma^2, f* and theta*."""

from heavystep.problems.base import FiniteSum, Problem
from heavystep.problems.cosine import Cosine
from heavystep.problems.least_squares import LeastSquares
from heavystep.problems.logistic import LogisticRegression, SparseLogistic
from heavystep.problems.section5 import paper_cosine, paper_least_squares, two_samples

__all__ = [
    "Cosine", "FiniteSum", "LeastSquares", "LogisticRegression", "Problem", "SparseLogistic",
    "paper_cosine", "paper_least_squares", "two_samples",
]  # fmt: skip
