"""The non-convex problem of Section 5 in kernels."""

from typing import Any, NamedTuple

import numpy as np

from heavystep.arrays import Array
from heavystep.problems import Cosine
from heavystep.simulation.kernel_cache import inner_kernel, inner_reduction
from heavystep.simulation.lanes import aligned, has_lanes
from heavystep.simulation.least_squares import row_dot, row_dot_moved
from heavystep.simulation.sine import write_sines_and_cosines
from heavystep.simulation.terms import (
    adds_up,
    depart,
    dot,
    evaluate,
    from_scratch,
    full_sqnorm,
    implement,
    loss_error,
    no_departure,
    no_preparation,
    objective_gap,
    plain_error,
    prepare_search,
    shared,
    trial_loss,
    workspace,
)

VANISHED = 1e-153
"""Smaller coordinates have subnormal squares, which are slow to compute with; they count as 0, as
their squares would in the end."""


WIDTH = 8
"""Numbers of the widest vector registers."""


class CosineTerms(NamedTuple):
    """Data of :class:`Cosine`."""

    s: Array
    xi: Array
    f_star: Array
    mean_s: float
    tilted: bool


def cosine_terms(problem: Cosine) -> CosineTerms:
    """The problem, laid out for its kernels."""
    s, xi, f_star = map(aligned, (problem.s, problem.xi, problem.f_star))
    return CosineTerms(s, xi, f_star, float(problem.s.mean()), bool(problem.xi.any()))


class CosineWork(NamedTuple):
    """Numbers of one point, one for each coordinate x.

    They are padded with zeros to a multiple of :data:`WIDTH`, of which bowl and slope are 0.
    """

    halves: Array
    """x / 2."""
    sines: Array
    """sin(x / 2)."""
    cosines: Array
    slopes: Array


def _workspace(terms: Any, theta: Any, size: Any) -> Any:
    lanes, dim = theta.shape
    padded = (lanes, (dim + WIDTH - 1) // WIDTH * WIDTH)
    return CosineWork(np.zeros(padded), np.empty(padded), np.empty(padded), np.empty(padded))


@inner_reduction
def _bowls(halves: Any, sines: Any) -> Any:
    """Sum of x^2 / 2 + 2 (1 - cos x); 1 - cos x = 2 sin^2(x/2) loses nothing near 0."""
    total = 0.0
    for j in range(halves.shape[0]):
        total += halves[j] * halves[j] + 2.0 * sines[j] * sines[j]
    return 2.0 * total


@inner_kernel
def _write_slopes(work: Any) -> None:
    """Write the derivatives x + 2 sin x = x + 4 sin(x/2) cos(x/2)."""
    halves, sines, cosines, slopes = work.halves, work.sines, work.cosines, work.slopes
    for j in range(halves.shape[0]):
        slopes[j] = 2.0 * (halves[j] + 2.0 * sines[j] * cosines[j])


def _evaluate(terms: Any, theta: Any, batch: Any, g: Any, work: Any) -> Any:
    size, dim = batch.shape[0], theta.shape[0]
    scale, low = 0.0, 0.0
    for i in batch:
        scale += terms.s[i]
        low += terms.f_star[i]
    scale = shared(scale, size)
    for j in range(dim):
        work.halves[j] = 0.5 * theta[j] if abs(theta[j]) > VANISHED else 0.0
    write_sines_and_cosines(work.halves, work.sines, work.cosines)
    _write_slopes(work)
    loss, square = scale * _bowls(work.halves, work.sines), dot(work.slopes, work.slopes)
    for j in range(dim):
        g[j] = scale * work.slopes[j]
    if terms.tilted:
        for i in batch:
            loss -= shared(row_dot(terms.xi, i, theta), size)
            for j in range(dim):
                g[j] -= shared(terms.xi[i, j], size)
    return loss, shared(low, size), terms.mean_s * terms.mean_s * square


def _trial_loss(terms: Any, theta: Any, g: Any, t: Any, batch: Any, work: Any) -> Any:
    size, dim = batch.shape[0], theta.shape[0]
    scale, tilt = 0.0, 0.0
    for i in batch:
        scale += terms.s[i]
    for j in range(dim):
        work.halves[j] = 0.5 * (theta[j] - t * g[j])
    if terms.tilted:
        for i in batch:
            tilt += row_dot_moved(terms.xi, i, theta, g, t)
    write_sines_and_cosines(work.halves, work.sines, work.cosines)
    return shared(scale * _bowls(work.halves, work.sines) - tilt, size)


def _gap(terms: Any, point: Any, work: Any) -> Any:
    for j in range(point.shape[0]):
        work.halves[j] = 0.5 * point[j]
    write_sines_and_cosines(work.halves, work.sines, work.cosines)
    return terms.mean_s * _bowls(work.halves, work.sines)


def _full_sqnorm(terms: Any, point: Any, work: Any) -> Any:
    objective_gap(terms, point, work)
    _write_slopes(work)
    return terms.mean_s * terms.mean_s * dot(work.slopes, work.slopes)


implement(
    CosineTerms,
    {
        workspace: _workspace,
        evaluate: _evaluate,
        adds_up: from_scratch,
        loss_error: plain_error,
        prepare_search: no_preparation,
        trial_loss: _trial_loss,
        depart: no_departure,
        objective_gap: _gap,
        full_sqnorm: _full_sqnorm,
    },
)
has_lanes(CosineTerms)
has_lanes(CosineWork, *CosineWork._fields)
