"""Rows with noisy classes, and the objective of logistic regression written out."""

import numpy as np
from scipy.optimize import minimize


def problem(n=400, dim=12, classes=2, seed=0):
    """Off-centre, correlated features of different size, noisy labels, classes not balanced."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, dim)) @ rng.normal(size=(dim, dim)) / 3 + 0.3
    scores = (
        X @ rng.normal(size=(dim, classes)) + rng.gumbel(size=(n, classes)) + np.arange(classes)
    )
    return X, scores.argmax(axis=1)


def objective(coef, intercept, X, y, alpha, weights=None):
    """The docstring's formula, written out."""
    weights = np.ones(len(y)) if weights is None else weights
    margins = np.where(y > 0, 1.0, -1.0) * (X @ coef + intercept)
    return weights @ np.logaddexp(0.0, -margins) / weights.sum() + alpha / 2 * coef @ coef


def least(X, y, alpha, weights=None, intercept=True):
    """The minimum by another method."""

    def value(theta):
        return objective(theta[:-1], theta[-1] if intercept else 0.0, X, y, alpha, weights)

    return minimize(value, np.zeros(X.shape[1] + 1), method="BFGS", options={"gtol": 1e-9}).fun
