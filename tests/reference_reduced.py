"""Variance-reduced surrogates as a literal loop, with the constant <a_k, x> as it is printed.

Like :mod:`tests.reference` this never imports ``heavystep``. A rule is a function that makes a
stepper: ``stepper(F, x, G, gap)`` gives the step for the surrogate F, its gradient G at x and the
bound of F(x) - inf F.
"""

import math

import numpy as np


def iterates(problem, x0, batches, follows, mu, stepper, beta=0.0):
    """x_0 .. x_K and the last anchor.

    ``follows`` says for each step whether the anchor moves.
    """
    x = previous = w = np.array(x0, dtype=np.float64)
    points = [x]
    for i, follow in zip(batches, follows, strict=True):
        a = problem.full_grad(w) - problem.grad(w, i)

        def surrogate(y, i=i, a=a, x=x):
            return problem.value(y, i) + a @ y + mu / 2 * ((y - x) @ (y - x))

        G = problem.grad(x, i) + a
        gap = problem.value(x, i) - problem.infimum(i) + (a @ a) / (2 * mu)
        new = x - stepper(surrogate, x, G, gap) * G + beta * (x - previous)
        w = x if follow else w
        previous, x = x, new
        points.append(x)
    return np.array(points), w


def adasps(c):
    """gamma_k = min{gap / (c_p |G|^2 sqrt(sum of gaps)), gamma_{k-1}}, c_p = c / sqrt(first gap)."""
    gaps, last = [], math.inf

    def step(F, x, G, gap):
        nonlocal last
        gaps.append(gap)
        last = min(gap / (c / math.sqrt(gaps[0]) * (G @ G) * math.sqrt(sum(gaps))), last)
        return last

    return step


def sps(c, gamma_max):
    """min{gap / (c |G|^2), gamma_max}."""
    return lambda F, x, G, gap: min(gap / (c * (G @ G)), gamma_max)


def sls(c, omega, gamma_max):
    """The largest gamma_max omega^j with F(x - t G) <= F(x) - c t |G|^2."""

    def step(F, x, G, gap):
        t = gamma_max
        while F(x - t * G) > F(x) - c * t * (G @ G):
            t *= omega
        return t

    return step
