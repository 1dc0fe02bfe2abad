"""The non-convex problem of Section 5 in kernels."""

import math
from typing import Any, NamedTuple

import numpy as np

from heavystep.arrays import Array
from heavystep.problems import Cosine
from heavystep.simulation.kernel_cache import kernel
from heavystep.simulation.terms import (
    depart,
    evaluate,
    full_sqnorm,
    implement,
    loss_error,
    no_departure,
    no_preparation,
    no_workspace,
    objective_gap,
    plain_error,
    prepare_search,
    trial_loss,
    workspace,
)

VANISHED = 1e-153
"""Smaller coordinates have subnormal squares, which are slow to compute with; they count as 0, as
their squares would in the end."""


class CosineTerms(NamedTuple):
    """Data of :class:`Cosine`."""

    s: Array
    xi: Array
    f_star: Array
    mean_s: float
    tilted: bool


def cosine_terms(problem: Cosine) -> CosineTerms:
    """The problem, laid out for its kernels."""
    s, xi, f_star = map(np.array, (problem.s, problem.xi, problem.f_star))
    return CosineTerms(s, xi, f_star, float(problem.s.mean()), bool(problem.xi.any()))


@kernel
def bowl(x: Any) -> Any:
    """x^2 / 2 + 2 (1 - cos x); 1 - cos x = 2 sin^2(x/2) loses nothing near 0."""
    half = math.sin(0.5 * x)
    return 0.5 * x * x + 4.0 * half * half


@kernel
def bowl_slope(x: Any) -> Any:
    """The derivative x + 2 sin x of :func:`bowl`, by the same sine."""
    return x + 4.0 * math.sin(0.5 * x) * math.cos(0.5 * x)


def _evaluate(terms: Any, theta: Any, batch: Any, g: Any, work: Any) -> Any:
    size, dim = batch.shape[0], theta.shape[0]
    scale, low = 0.0, 0.0
    for i in batch:
        scale += terms.s[i]
        low += terms.f_star[i]
    scale /= size
    height, square = 0.0, 0.0
    for j in range(dim):
        x = theta[j] if abs(theta[j]) > VANISHED else 0.0
        slope = bowl_slope(x)
        height += bowl(x)
        square += slope * slope
        g[j] = scale * slope
    loss = scale * height
    if terms.tilted:
        for i in batch:
            for j in range(dim):
                loss -= terms.xi[i, j] * theta[j] / size
                g[j] -= terms.xi[i, j] / size
    return loss, low / size, terms.mean_s * terms.mean_s * square


def _trial_loss(terms: Any, theta: Any, g: Any, t: Any, batch: Any, work: Any) -> Any:
    size, dim = batch.shape[0], theta.shape[0]
    scale, height, tilt = 0.0, 0.0, 0.0
    for i in batch:
        scale += terms.s[i]
    for j in range(dim):
        height += bowl(theta[j] - t * g[j])
    if terms.tilted:
        for i in batch:
            for j in range(dim):
                tilt += terms.xi[i, j] * (theta[j] - t * g[j])
    return (scale * height - tilt) / size


def _gap(terms: Any, point: Any) -> Any:
    gap = 0.0
    for x in point:
        gap += bowl(x)
    return terms.mean_s * gap


def _full_sqnorm(terms: Any, point: Any) -> Any:
    square = 0.0
    for x in point:
        square += bowl_slope(x) ** 2
    return terms.mean_s * terms.mean_s * square


implement(
    CosineTerms,
    {
        workspace: no_workspace,
        evaluate: _evaluate,
        loss_error: plain_error,
        prepare_search: no_preparation,
        trial_loss: _trial_loss,
        depart: no_departure,
        objective_gap: _gap,
        full_sqnorm: _full_sqnorm,
    },
)
