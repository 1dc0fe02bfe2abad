"""The non-convex problem of Section 5 in kernels."""

from typing import Any, NamedTuple

import numpy as np

from heavystep.arrays import Array
from heavystep.problems import Cosine
from heavystep.simulation.addresses import hidden, put, row_of, start_of
from heavystep.simulation.fours import WIDTH
from heavystep.simulation.kernel_cache import inner_kernel, loop_part
from heavystep.simulation.lanes import aligned, has_lanes, lane_of
from heavystep.simulation.least_squares import (
    picked,
    row_dot,
    row_dot_moved,
    row_dots,
    row_dots_moved,
    rows_at,
    rows_of,
)
from heavystep.simulation.sine import write_sines_and_cosines
from heavystep.simulation.sums import added, all_summed, four_rows, squares, summed
from heavystep.simulation.terms import (
    adds_up,
    depart,
    dot,
    evaluate,
    evaluate_all,
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
    trial_losses,
    workspace,
)
from heavystep.simulation.truths import as_four
from heavystep.simulation.widths import entry

VANISHED = 1e-153
"""Smaller coordinates have subnormal squares, which are slow to compute with; they count as 0, as
their squares would in the end."""


PADDING = 8
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

    They are padded with zeros to a multiple of :data:`PADDING`, of which bowl and slope are 0.
    """

    halves: Array
    """x / 2."""
    sines: Array
    """sin(x / 2)."""
    cosines: Array
    slopes: Array
    scales: Array
    """One number of each seed, which all seeds see."""


def _workspace(terms: Any, theta: Any, size: Any) -> Any:
    lanes, dim = theta.shape
    padded = (lanes, (dim + PADDING - 1) // PADDING * PADDING)
    return CosineWork(
        np.zeros(padded), np.empty(padded), np.empty(padded), np.empty(padded), np.empty((1, lanes))
    )


@loop_part
def _bowl(width: Any, data: Any, j: Any, total: Any) -> Any:
    half, sine = entry(width, data[0], j), entry(width, data[1], j)
    return added(sine * sine, 2.0, added(half, half, total))


@loop_part
def _bowls(halves: Any, sines: Any) -> Any:
    """Sum of x^2 / 2 + 2 (1 - cos x); 1 - cos x = 2 sin^2(x/2) loses nothing near 0."""
    return 2.0 * summed(_bowl, (start_of(halves), start_of(sines)), halves.shape[0])


@loop_part
def _all_bowls(work: Any, lane: Any) -> Any:
    """The same of four seeds."""
    (a, b, c, d), (p, q, r, s) = four_rows(work.halves, lane), four_rows(work.sines, lane)
    return 2.0 * all_summed(_bowl, (a, p), (b, q), (c, r), (d, s), work.halves.shape[1])


@inner_kernel
def _write_slopes(work: Any) -> None:
    """Write the derivatives x + 2 sin x = x + 4 sin(x/2) cos(x/2)."""
    halves, sines, cosines, slopes = work.halves, work.sines, work.cosines, work.slopes
    for j in range(halves.shape[0]):
        slopes[j] = 2.0 * (halves[j] + 2.0 * sines[j] * cosines[j])


@inner_kernel
def _halve(theta: Any, work: Any) -> None:
    """Write what the loss at theta is made of."""
    for j in range(theta.shape[0]):
        work.halves[j] = 0.5 * theta[j] if abs(theta[j]) > VANISHED else 0.0
    write_sines_and_cosines(work.halves, work.sines, work.cosines)
    _write_slopes(work)


@inner_kernel
def _write_gradient(scale: Any, slopes: Any, g: Any) -> None:
    for j in range(g.shape[0]):
        g[j] = scale * slopes[j]


@inner_kernel
def _tilt(terms: Any, i: Any, g: Any, size: Any) -> None:
    for j in range(g.shape[0]):
        g[j] -= shared(terms.xi[i, j], size)


def _evaluate(terms: Any, theta: Any, batch: Any, g: Any, work: Any) -> Any:
    size = batch.shape[0]
    scale, low = 0.0, 0.0
    for i in batch:
        scale += terms.s[i]
        low += terms.f_star[i]
    scale = shared(scale, size)
    _halve(theta, work)
    loss, square = scale * _bowls(work.halves, work.sines), dot(work.slopes, work.slopes)
    _write_gradient(scale, work.slopes, g)
    if terms.tilted:
        for i in batch:
            loss -= shared(row_dot(terms.xi, i, theta), size)
            _tilt(terms, i, g, size)
    return loss, shared(low, size), terms.mean_s * terms.mean_s * square


def _evaluate_all(terms: Any, theta: Any, batch: Any, g: Any, work: Any, lane: Any) -> Any:
    size = hidden(batch.shape[1])
    scale, low = as_four(0.0), as_four(0.0)
    for b in range(size):
        rows = rows_of(batch, lane, b)
        scale += picked(terms.s, rows)
        low += picked(terms.f_star, rows)
    scale = shared(scale, size)
    for seed in range(lane, lane + WIDTH):
        _halve(theta[seed], lane_of(work, seed))
    loss, square = scale * _all_bowls(work, lane), squares(work.slopes, lane)
    put(row_of(work.scales, 0), lane, scale)
    for seed in range(lane, lane + WIDTH):
        _write_gradient(work.scales[0, seed], work.slopes[seed], g[seed])
    if terms.tilted:
        for b in range(size):
            rows = rows_of(batch, lane, b)
            loss -= shared(row_dots(rows_at(terms.xi, rows), theta, lane), size)
            for seed in range(lane, lane + WIDTH):
                _tilt(terms, batch[seed, b], g[seed], size)
    return loss, shared(low, size), terms.mean_s * terms.mean_s * square


def _trial_loss(terms: Any, theta: Any, g: Any, t: Any, batch: Any, work: Any) -> Any:
    size = batch.shape[0]
    scale, tilt = 0.0, 0.0
    for i in batch:
        scale += terms.s[i]
    if terms.tilted:
        for i in batch:
            tilt += row_dot_moved(terms.xi, i, theta, g, t)
    _halve_moved(theta, g, t, work)
    return shared(scale * _bowls(work.halves, work.sines) - tilt, size)


@inner_kernel
def _halve_moved(theta: Any, g: Any, t: Any, work: Any) -> None:
    """Write what the loss at theta - t g is made of."""
    for j in range(theta.shape[0]):
        work.halves[j] = 0.5 * (theta[j] - t * g[j])
    write_sines_and_cosines(work.halves, work.sines, work.cosines)


def _trial_losses(terms: Any, theta: Any, g: Any, t: Any, batch: Any, work: Any, lane: Any) -> Any:
    size = hidden(batch.shape[1])
    scale, tilt = as_four(0.0), as_four(0.0)
    for b in range(size):
        rows = rows_of(batch, lane, b)
        scale += picked(terms.s, rows)
        if terms.tilted:
            tilt += row_dots_moved(rows_at(terms.xi, rows), theta, g, t, lane)
    put(row_of(work.scales, 0), lane, t)
    for seed in range(lane, lane + WIDTH):
        _halve_moved(theta[seed], g[seed], work.scales[0, seed], lane_of(work, seed))
    return shared(scale * _all_bowls(work, lane) - tilt, size)


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
        evaluate_all: _evaluate_all,
        trial_losses: _trial_losses,
        depart: no_departure,
        objective_gap: _gap,
        full_sqnorm: _full_sqnorm,
    },
)
has_lanes(CosineTerms)
has_lanes(CosineWork, "halves", "sines", "cosines", "slopes")
