r"""Minimise logistic regressions: SHB with the Polyak step on a sample, then L-BFGS on all rows.

The first phase takes at most ``STEPS`` minibatches from a sample of the rows. It comes within a few
per cent of the least loss at a fraction of the cost of a pass. Its result is the mean of the
iterates of its second half, in which later ones count more (the theorems for convex losses speak of
means, too). The last phase, :mod:`heavystep.linear.descent`, looks at all rows at each step, and is
not stochastic heavy ball. It begins with the Hessian of the sample, ends when the gap to the
minimum is proven to be small, and converges where steps along gradients would not.

The cap is :math:`\gamma_{\max} = 2 / \bar L` with the mean smoothness
:math:`\bar L = \overline{\|a\|^2} / 4 + \max_j \lambda_j`: in the units of the data, so that
there is nothing to tune.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, log
from typing import NamedTuple

import numpy as np

from heavystep.arrays import Array
from heavystep.linear.columns import Columns
from heavystep.linear.curvature import Sample
from heavystep.linear.descent import Descent, descend
from heavystep.linear.objective import Objective
from heavystep.linear.tables import Table
from heavystep.problems import SparseLogistic
from heavystep.simulation.configuration import Configuration, configure
from heavystep.simulation.logistic import mean_square_length
from heavystep.simulation.run import Run
from heavystep.simulation.watch import MeanWatch

STEPS = 128
"""The most minibatches of the first phase."""
LEAST, PART = 64, 4
"""The sample has rows for at least LEAST minibatches, if there are so many, and at most for STEPS;
in between it is one row in PART."""
PASSES = 2
"""The most passes of the first phase over its sample."""
SNAPSHOTS = 32
"""At least this many iterates enter a mean, and at most twice as many, if there are so many."""
NO_GRID = np.array([np.iinfo(np.int64).max])


class Settings(NamedTuple):
    """What the user may set."""

    momentum: float
    max_step: float | None
    batch_size: int
    max_iter: int
    tol: float


class Scene(NamedTuple):
    """What the problems of all classes share."""

    table: Table
    shares: Array
    """(n,) weights of the rows, with sum 1."""
    columns: Columns
    alpha: float
    sample: Sample


@dataclass
class Stochastic:
    """Steps on minibatches, and where they are."""

    problem: SparseLogistic
    run: Run
    batch_size: int


class Fitted(NamedTuple):
    """The end of a minimisation."""

    theta: Array
    values: list[float]
    passes: int
    gap: float
    converged: bool
    stochastic: Stochastic


def scene(
    table: Table,
    weights: Array,
    alpha: float,
    settings: Settings,
    *,
    fit_intercept: bool,
    rng: np.random.Generator,
) -> Scene:
    """Draw a sample of the rows, and find the units of the columns from it."""
    present = np.flatnonzero(weights)
    size = min(len(present), max(LEAST * settings.batch_size, len(present) // PART))
    size = min(size, STEPS * settings.batch_size)
    if not (whole := size == len(present)):
        present = present[np.sort(rng.choice(len(present), size, replace=False))]
    rows = table.take(present)
    columns = Columns.of(
        rows,
        weights[present],
        alpha,
        fit_intercept=fit_intercept,
        stored=table.stored_everywhere,
    )
    sample = Sample(present, columns.transform(rows), rng.permutation(size), whole)
    return Scene(table, weights / weights.sum(), columns, alpha, sample)


def fit(scene: Scene, signs: Array, settings: Settings, known: Array | None) -> Fitted:
    """Minimise for one vector of labels.

    Args:
        scene: rows, weights, units and sample.
        signs: (n,) labels, -1 or +1.
        settings: of the user.
        known: where to begin, without the first phase; None: at 0, with it.
    """
    sample = scene.sample
    objective = Objective(scene.table, signs, scene.shares, scene.columns, scene.alpha)
    problem = SparseLogistic.unchecked(
        sample.rows, signs[sample.places], objective.penalties, scene.shares[sample.places]
    )
    stochastic = start(problem, settings)
    passes = 0
    if known is None:
        limit = settings.max_iter * scene.table.n // stochastic.batch_size
        known, steps = first_phase(stochastic, sample.order, limit)
        passes = ceil(steps * stochastic.batch_size / scene.table.n)
    point = objective.at(known.astype(np.float64))
    if passes and point.value > log(2.0):  # worse than where it began
        point = objective.at(np.zeros_like(point.theta))
    # The value where it begins is not counted: no step is taken for it.
    passes -= objective.passes
    descent = Descent(objective, sample, point)
    descend(descent, tol=settings.tol, most_passes=settings.max_iter - passes)
    theta = descent.point.theta
    stochastic.run.state.theta[:] = theta
    stochastic.run.state.buffer[:] = 0.0
    count = max(1, objective.passes + passes)
    return Fitted(theta, descent.values, count, descent.gap, descent.converged, stochastic)


def start(problem: SparseLogistic, settings: Settings) -> Stochastic:
    """Stochastic steps that begin at theta = 0."""
    # Noise grows with the step over the size of the batch: with fewer rows, smaller steps.
    share = min(1.0, problem.n / settings.batch_size)
    cap = settings.max_step or 2.0 * share / mean_smoothness(problem)
    run = Run(problem, _method(settings.momentum, cap), 0, NO_GRID)
    return Stochastic(problem, run, min(settings.batch_size, problem.n))


def _method(momentum: float, max_step: float) -> Configuration:
    """SHB-PS with a cap; everything else is looked up once, because small fits take no longer."""
    plain = _method_without_cap(momentum)
    options = {**dict(plain.options), "max_step": float(max_step)}
    return replace(plain, options=tuple(options.items()))


@lru_cache
def _method_without_cap(momentum: float) -> Configuration:
    return configure("SHBPolyak", momentum=momentum, scaling="practical", steps_per_epoch=None)


def mean_smoothness(problem: SparseLogistic) -> float:
    """Mean of the terms' smoothness constants; 1 if all rows are 0."""
    curvature = mean_square_length(problem.rows, problem.weights) / 4.0
    return curvature + problem.largest_penalty or 1.0


def first_phase(stochastic: Stochastic, order: Array, most: int) -> tuple[Array, int]:
    """Steps through the sample: the result, and how many there were.

    Args:
        stochastic: at its beginning.
        order: of the rows.
        most: the most steps.
    """
    n, size = stochastic.problem.n, stochastic.batch_size
    if n == size:  # nothing is random: that is for the last phase
        return np.array(stochastic.run.state.theta), 0
    steps = min(STEPS, PASSES * ceil(n / size), max(most, 1))
    batches = np.resize(order, (steps, size))
    half = steps // 2
    if half:
        _mean_of_steps(stochastic, batches[:half])
    return _mean_of_steps(stochastic, batches[half:]), steps


def average_pass(stochastic: Stochastic, rng: np.random.Generator) -> Array:
    """One pass over the rows in random order; returns the weighted mean of its iterates."""
    n, size = stochastic.problem.n, stochastic.batch_size
    # The last batch is filled up with rows of the first.
    batches = np.resize(rng.permutation(n), (ceil(n / size), size))
    return _mean_of_steps(stochastic, batches)


def _mean_of_steps(stochastic: Stochastic, batches: Array) -> Array:
    """Take a step for each batch; returns the mean of the iterates, with weights 1, 2, 3, ..."""
    run, steps = stochastic.run, len(batches)
    run.watch = watch = MeanWatch.of(stochastic.problem.dim, every=max(1, steps // SNAPSHOTS))
    if run.advance(steps, batches) < steps:
        raise ValueError("the loss or its gradient is not finite: scale the features")
    mean: Array = watch.mean().astype(run.state.theta.dtype)
    return mean
