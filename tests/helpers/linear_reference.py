"""SHB on logistic regression as a literal loop over scipy matrices: the judge of the kernels.

Follows Appendix E of the paper in its symbols and imports nothing of ``heavystep``. Losses are
evaluated anew at every trial, on the rows themselves.
"""

import math

import numpy as np
from scipy.special import expit

PAPER = {
    "SHB-PS": {"rule": "polyak", "beta": 0.9, "c": 1.0, "gamma_max": 1.0, "q": 4.0},
    "SHB-ALS": {"rule": "armijo", "beta": 0.9, "c": 0.1, "gamma_max": 1.0, "q": 2.0},
    "SPS": {"rule": "polyak", "beta": 0.0, "c": 0.1, "gamma_max": 1.0, "q": 4.0, "plain": True},
    "SLS": {"rule": "armijo", "beta": 0.0, "c": 0.1, "gamma_max": 1.0, "q": 2.0, "plain": True},
    **{f"SHB {gamma:g}": {"rule": "fixed", "beta": 0.9, "gamma_max": gamma}
       for gamma in (1e-4, 1e-3, 1e-2, 1e-1)},
}  # fmt: skip


def run(A, y, batches, *, rule, beta, gamma_max, c=1.0, q=math.inf, plain=False, omega=0.9,
        l2=0.0, weights=None):  # fmt: skip
    """Iterates theta_0 .. theta_K and steps; ``q`` is the growth of one step, not of an epoch."""
    weights = np.ones(len(y)) if weights is None else weights / np.mean(weights)
    empty = np.diff(A.indptr) == 0
    theta = previous = np.zeros(A.shape[1])
    r_beta = 1.0 if plain else (1 - math.sqrt(beta)) ** -2
    gamma_raw, iterates, steps = math.inf, [theta], []
    for batch in batches:
        Z, w = A[batch].multiply(y[batch][:, None]).tocsr(), weights[batch] / len(batch)

        def value(x, Z=Z, w=w):
            return w @ np.logaddexp(0.0, -(Z @ x)) + 0.5 * (l2 * x) @ x

        g = Z.T @ (-w * expit(-(Z @ theta))) + l2 * theta
        f, g2, f_star = value(theta), g @ g, w @ (empty[batch] * math.log(2.0))
        proposal = min(q * gamma_raw, gamma_max / r_beta)
        half = 1.0 if plain else (1 - math.sqrt(beta)) ** 2 / 2
        if rule == "fixed":
            gamma_raw = gamma_max / r_beta
        elif rule == "polyak":
            gamma_raw = min(half * (f - f_star) / (c * g2), proposal)
        else:
            gamma_raw = proposal
            while value(theta - gamma_raw / half * g) > f - c * gamma_raw / half * g2:
                gamma_raw *= omega
        gamma = min(r_beta * gamma_raw, gamma_max)
        theta, previous = theta - gamma * g + beta * (theta - previous), theta
        iterates.append(theta)
        steps.append(gamma)
    return np.array(iterates), np.array(steps)
