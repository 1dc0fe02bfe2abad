r"""Minimise one logistic regression: SHB with the Polyak step, batches that grow, averages.

A round is one pass over the shuffled rows. Its result is the mean of the iterates of the round,
later ones counting more (the theorems for convex losses speak of means, too). When a round no
longer lowers the loss by much, noise is what is left: the batch doubles. When the batch is
everything, nothing is random any more, and the Armijo line search takes over from the Polyak step,
which does not converge where the least loss is above its lower bound.

The cap is :math:`\gamma_{\max} = 2 / \bar L` with the mean smoothness
:math:`\bar L = \overline{\|a\|^2} / 4 + \max_j \lambda_j`: in the units of the data, so that
there is nothing to tune.
"""

from dataclasses import dataclass, field, replace
from math import ceil

import numpy as np

from heavystep.arrays import Array
from heavystep.engine.logistic import mean_square_length
from heavystep.engine.method import Method
from heavystep.engine.run import Run, full_loss
from heavystep.engine.watch import MeanWatch
from heavystep.problems import SparseLogistic

STALL = 3e-3
"""A round that lowers the loss by less than this part makes the batch double."""
SNAPSHOTS = 32
"""How many iterates of a round enter its mean, or twice as many."""
SEARCH_STEPS = 10
"""Steps of a round when the batch is everything; each is a pass."""
PATIENCE = 2
"""Rounds in a row that must lower the loss by less than ``tol`` before it counts as converged."""
FAR = 1e6
"""Cap of the line search, in units of one over the mean smoothness: it decides, not the cap."""
NO_GRID = np.array([np.iinfo(np.int64).max])


@dataclass
class Progress:
    """What a minimisation carries from round to round."""

    problem: SparseLogistic
    run: Run
    batch_size: int
    best: Array
    """The mean iterate with the least loss so far."""
    losses: list[float] = field(default_factory=list)
    passes: int = 0
    settled: int = 0
    """Rounds in a row, on all rows, that hardly lowered the loss."""
    converged: bool = False

    @property
    def least(self) -> float:
        """The loss at ``best``; infinite before the first round."""
        return min(self.losses, default=np.inf)


def start(
    problem: SparseLogistic, *, momentum: float, max_step: float | None, batch_size: int
) -> Progress:
    """Nothing done yet, at theta = 0."""
    cap = 2.0 / mean_smoothness(problem) if max_step is None else max_step
    method = Method("polyak", momentum, 1.0, cap, scaling="practical")
    run = Run(problem, method, 0, NO_GRID)
    return Progress(problem, run, min(batch_size, problem.n), np.array(run.state.theta))


def mean_smoothness(problem: SparseLogistic) -> float:
    """Mean of the terms' smoothness constants; 1 if all rows are 0."""
    curvature = mean_square_length(problem.rows, problem.weights) / 4.0
    return curvature + problem.largest_penalty or 1.0


def minimise(progress: Progress, *, max_iter: int, tol: float, rng: np.random.Generator) -> None:
    """Rounds until the loss no longer falls or ``max_iter`` passes are over."""
    while progress.passes < max_iter and not progress.converged:
        if progress.batch_size < progress.problem.n:
            fall = _take(progress, average_pass(progress, rng))
            if fall < max(STALL, tol):
                progress.batch_size = min(2 * progress.batch_size, progress.problem.n)
        else:
            point = search_round(progress, max_iter - progress.passes)
            progress.settled = progress.settled + 1 if _take(progress, point) < tol else 0
            progress.converged = progress.settled >= PATIENCE


def _take(progress: Progress, point: Array) -> float:
    """Keep the point if it is the best, and return by which part it lowers the loss."""
    loss, least = full_loss(progress.run, point), progress.least
    if not np.isfinite(loss):
        raise ValueError("the loss is not finite: scale the features")
    progress.losses.append(loss)
    if loss < least:
        progress.best = point
    return 1.0 if least == np.inf else 1.0 - loss / least if least > 0.0 else 0.0


def average_pass(progress: Progress, rng: np.random.Generator) -> Array:
    """One pass over the rows in random order; returns the weighted mean of its iterates."""
    run, size = progress.run, progress.batch_size
    n = progress.problem.n
    steps = ceil(n / size)
    order = rng.permutation(n)
    # The last batch is filled up with rows of the first.
    batches = np.resize(order, (steps, size))
    watch = MeanWatch(np.zeros(progress.problem.dim), np.zeros(3), max(1, steps // SNAPSHOTS))
    run.watch = watch
    _advance(run, batches)
    progress.passes += 1
    mean: Array = (watch.mean / watch.numbers[2]).astype(run.state.theta.dtype)
    return mean


def search_round(progress: Progress, most: int) -> Array:
    """Some steps on all rows with the line search; returns the last iterate.

    It begins at the best point and without momentum if the last round was not that of the best:
    then momentum went too far, and the first steps from here lower the loss for sure.
    """
    run = progress.run
    if run.method.rule != "armijo":
        cap = FAR / mean_smoothness(progress.problem)
        run.change_method(replace(run.method, rule="armijo", c=0.5, omega=0.5, gamma_max=cap,
                                  steps_per_epoch=1.0, growth=2.0))  # fmt: skip
    if (progress.losses and progress.losses[-1] > progress.least) or progress.settled:
        run.state.theta[:] = progress.best
        run.state.displacement[:] = 0.0
    steps = min(SEARCH_STEPS, most)
    _advance(run, np.tile(np.arange(progress.problem.n), (steps, 1)))
    progress.passes += steps
    return np.array(run.state.theta)


def _advance(run: Run, batches: Array) -> None:
    if run.advance(len(batches), batches) < len(batches):
        raise ValueError("the loss or its gradient is not finite: scale the features")
