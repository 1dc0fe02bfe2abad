r"""Minimise one logistic regression: SHB with the Polyak step, batches that grow, averages.

A round is one pass over the shuffled rows. Its result is the mean of the iterates of the round, in
which later ones count more (the theorems for convex losses speak of means, too). When a round
hardly lowers the loss, what is left is noise, and the batch doubles. When a batch is all rows,
nothing is random any more, and the Armijo line search takes over from the Polyak step, which does
not converge where the least loss is above its lower bound.

The cap is :math:`\gamma_{\max} = 2 / \bar L` with the mean smoothness
:math:`\bar L = \overline{\|a\|^2} / 4 + \max_j \lambda_j`: in the units of the data, so that
there is nothing to tune.
"""

from dataclasses import dataclass, field
from math import ceil, inf

import numpy as np

from heavystep.arrays import Array
from heavystep.problems import SparseLogistic
from heavystep.simulation.configuration import configure
from heavystep.simulation.logistic import mean_square_length
from heavystep.simulation.run import Run, full_loss
from heavystep.simulation.watch import MeanWatch

STALL = 3e-3
"""A round that lowers the loss by less than this part makes the batch double."""
SNAPSHOTS = 32
"""At least this many iterates of a round enter its mean, and at most twice as many."""
SEARCH_STEPS = 10
"""The most steps of a round on all rows; each is a pass."""
PATIENCE = 2
"""Rounds in a row that must lower the loss by less than ``tol`` before it counts as converged."""
FAR_OFF = 10.0
"""It has converged if no parameter alone could lower the loss by more than ``FAR_OFF * tol``."""
EPS = float(np.finfo(np.float64).eps)
FAR = 1e6
"""Cap of the line search times the mean smoothness, so large that the search decides."""
MAX_TRIALS = 10_000
"""Of one search: enough to halve the cap down to the smallest numbers."""
NO_GRID = np.array([np.iinfo(np.int64).max])


@dataclass
class Progress:
    """What a minimisation carries from round to round."""

    problem: SparseLogistic
    run: Run
    momentum: float
    batch_size: int
    best: Array
    """The point with the least loss so far."""
    least: float = inf
    """Its loss; infinite before anything was evaluated."""
    losses: list[float] = field(default_factory=list)
    passes: int = 0
    search_steps: int = SEARCH_STEPS
    """Steps of the next round on all rows; each is a pass."""
    settled: int = 0
    """Rounds in a row, on all rows, that hardly lowered the loss."""
    converged: bool = False
    searching: bool = False
    """Whether the line search has taken over."""


def start(
    problem: SparseLogistic, *, momentum: float, max_step: float | None, batch_size: int
) -> Progress:
    """A minimisation that begins at theta = 0."""
    # Noise grows with the step over the size of the batch: with fewer rows, smaller steps.
    share = min(1.0, problem.n / batch_size)
    cap = 2.0 * share / mean_smoothness(problem) if max_step is None else max_step
    sampling = configure(
        "SHBPolyak", momentum=momentum, max_step=cap, scaling="practical", steps_per_epoch=None
    )
    run = Run(problem, sampling, 0, NO_GRID)
    return Progress(problem, run, momentum, min(batch_size, problem.n), np.array(run.state.theta))


def mean_smoothness(problem: SparseLogistic) -> float:
    """Mean of the terms' smoothness constants; 1 if all rows are 0."""
    curvature = mean_square_length(problem.rows, problem.weights) / 4.0
    return curvature + problem.largest_penalty or 1.0


def minimise(progress: Progress, *, max_iter: int, tol: float, rng: np.random.Generator) -> None:
    """Go through rounds until the loss no longer falls or ``max_iter`` passes are over."""
    while progress.passes < max_iter and not progress.converged:
        if progress.batch_size < progress.problem.n:
            fall = _take(progress, average_pass(progress, rng))
            if fall < max(STALL, tol):
                progress.batch_size = min(2 * progress.batch_size, progress.problem.n)
        else:
            fall = _take(progress, search_round(progress, max_iter - progress.passes))
            progress.settled = progress.settled + 1 if fall < tol else 0
            progress.search_steps = _next_length(progress.search_steps, fall)
            if progress.settled >= PATIENCE:
                still = possible_fall(progress.problem, progress.best)
                progress.converged = still <= FAR_OFF * max(tol, EPS) * progress.least


def start_at(progress: Progress, theta: Array) -> None:
    """Begin at another point; no point with a larger loss becomes the result."""
    progress.run.state.theta[:] = theta
    progress.best = np.array(progress.run.state.theta)
    progress.least = full_loss(progress.run, progress.best)


def _take(progress: Progress, point: Array) -> float:
    """Keep the point if it is the best so far, and return the part by which it lowers the loss."""
    loss, least = full_loss(progress.run, point), progress.least
    if not np.isfinite(loss):
        raise ValueError("the loss is not finite: scale the features")
    progress.losses.append(loss)
    if loss < least:
        progress.best, progress.least = point, loss
    return 1.0 if least == inf else 1.0 - loss / least if least > 0.0 else 0.0


def possible_fall(problem: SparseLogistic, theta: Array) -> float:
    r"""By how much one step along one parameter would lower F at least.

    .. math:: \max_j \frac{(\partial_j F)^2}{2 h_j}, \qquad
              h_j = \tfrac14\,\overline{w a_j^2} + \lambda_j \ge \partial_j^2 F

    If this is large, a loss that no longer falls is not at its minimum: the steps are too small.
    """
    gradient = problem.full_gradient(theta)
    rows = problem.rows
    shares = (problem.weights / (4.0 * problem.n))[rows.row_of_entries()]
    squares = np.square(rows.values, dtype=np.float64)
    curvature = np.bincount(rows.indices, shares * squares, minlength=rows.dim) + problem.l2
    falls = np.divide(gradient**2, 2.0 * curvature, out=np.zeros(rows.dim), where=curvature > 0.0)
    return float(falls.max(initial=0.0))


def average_pass(progress: Progress, rng: np.random.Generator) -> Array:
    """One pass over the rows in random order; returns the weighted mean of its iterates."""
    run, size = progress.run, progress.batch_size
    n = progress.problem.n
    steps = ceil(n / size)
    order = rng.permutation(n)
    # The last batch is filled up with rows of the first.
    batches = np.resize(order, (steps, size))
    run.watch = watch = MeanWatch.of(progress.problem.dim, every=max(1, steps // SNAPSHOTS))
    _advance(run, batches)
    progress.passes += 1
    mean: Array = watch.mean().astype(run.state.theta.dtype)
    return mean


def _next_length(steps: int, fall: float) -> int:
    """Half as many steps if momentum went too far: one step without it lowers the loss for sure."""
    return max(1, steps // 2) if fall <= 0.0 else min(2 * steps, SEARCH_STEPS)


def search_round(progress: Progress, most: int) -> Array:
    """Some steps on all rows with the line search; returns the last iterate.

    It goes on from where the last round ended. If that round did not find the best point, or if the
    loss no longer falls, it begins at the best point instead, without momentum.
    """
    run = progress.run
    if not progress.searching:
        progress.searching = True
        run.change(
            configure(
                "SHBArmijo",
                momentum=progress.momentum,
                c=0.5,
                decrease_factor=0.5,
                max_step=FAR / mean_smoothness(progress.problem),
                scaling="practical",
                steps_per_epoch=1.0,
                growth=2.0,
                max_trials=MAX_TRIALS,
            )
        )
    if (progress.losses and progress.losses[-1] > progress.least) or progress.settled:
        run.state.theta[:] = progress.best
        run.state.buffer[:] = 0.0
    steps = min(progress.search_steps, most)
    _advance(run, np.tile(np.arange(progress.problem.n), (steps, 1)))
    progress.passes += steps
    return np.array(run.state.theta)


def _advance(run: Run, batches: Array) -> None:
    if run.advance(len(batches), batches) < len(batches):
        raise ValueError("the loss or its gradient is not finite: scale the features")
