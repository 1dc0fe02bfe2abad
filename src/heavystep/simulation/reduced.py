"""Variance-reduced losses in kernels, around the kernels of the problem itself.

The surrogate is computed less the constant <a_k, theta_k>, on which no step depends: its loss at
theta_k is then the sampled loss, and the large products with a_k cancel nowhere.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from heavystep.arrays import Array
from heavystep.problems import VarianceReduced
from heavystep.simulation.kernel_cache import inner_kernel, inner_reduction, kernel
from heavystep.simulation.lanes import has_lanes, lane_of
from heavystep.simulation.streams import random_unit, second_key
from heavystep.simulation.terms import (
    adds_up,
    depart,
    dot,
    evaluate,
    full_sqnorm,
    implement,
    loss_error,
    objective,
    objective_gap,
    objectives,
    prepare_search,
    trial_loss,
    workspace,
)


class ReducedTerms(NamedTuple):
    """Data of :class:`VarianceReduced`, and the anchor of one run."""

    inside: Any
    """The terms of the problem itself."""
    n: int
    anchor: Array
    gradient: Array
    """(d,) grad F at the anchor, in float64."""
    curvature: float
    probability: float
    """With which probability the anchor moves, whatever the size of the batch."""
    per_sample: float
    """The same for each sample of the batch; one of the two is 0."""


class ReducedWork(NamedTuple):
    """One batch's numbers."""

    inside: Any
    """The workspace of the problem itself."""
    shift: Array
    """(d,) a_k, in float64."""
    products: Array
    """<a_k, d> and <d, d> for the vector d that trials go along."""
    everyone: Array
    """(n,) the batch of all terms."""
    whole: Any
    """The workspace of the problem itself for that batch, which seeds use in turns."""


def reduced_terms(problem: VarianceReduced, inside: Any) -> ReducedTerms:
    """The problem with an anchor at its start, around the terms ``inside``."""
    anchor, gradient = np.array(problem.theta0), np.empty(problem.dim)
    survey(inside, problem.n, anchor, gradient)
    given = problem.probability
    chances = (0.0, 1.0 / problem.n) if given is None else (given, 0.0)
    return ReducedTerms(inside, problem.n, anchor, gradient, problem.curvature, *chances)


@kernel
def survey(inside: Any, n: Any, point: Any, gradient: Any) -> None:
    """Write grad F at a point."""
    _survey(inside, point, np.arange(n), gradient, workspace(inside, point.reshape(1, -1), n))


@inner_kernel
def _survey(inside: Any, point: Any, everyone: Any, gradient: Any, whole: Any) -> None:
    """Write grad F at a point: that of the batch of all terms."""
    gradient[:] = 0.0
    evaluate(inside, point, everyone, gradient, lane_of(whole, 0))


def _workspace(terms: Any, theta: Any, size: Any) -> Any:
    return ReducedWork(
        workspace(terms.inside, theta, size),
        np.empty(theta.shape),
        np.empty((theta.shape[0], 2)),
        np.arange(terms.n),
        workspace(terms.inside, theta[:1], terms.n),
    )


def _adds_up(terms: Any) -> Any:
    return adds_up(terms.inside)


def _evaluate(terms: Any, theta: Any, batch: Any, g: Any, work: Any) -> Any:
    number, shift = g.dtype.type, work.shift
    shift[:] = 0.0
    # The anchor comes first: trials need what the workspace keeps of theta.
    evaluate(terms.inside, terms.anchor, batch, shift, work.inside)
    loss, low, full = evaluate(terms.inside, theta, batch, g, work.inside)
    for j in range(g.shape[0]):
        shift[j] = terms.gradient[j] - shift[j]
        g[j] += number(shift[j])
    low -= 0.5 * dot(shift, shift) / terms.curvature
    return loss, low, full


def _loss_error(terms: Any, theta: Any, g: Any, loss: Any, eps: Any, work: Any) -> Any:
    # The rounding of theta alone moves the loss by ||grad f|| ||theta|| eps. Where the gradient is
    # that of the step this is small beside the decrease that a search asks for. Here it is not.
    moved = math.sqrt(_apart(g, work.shift) * dot(theta, theta))
    return eps * (1.0 + moved / abs(loss)) if loss != 0.0 else eps


@inner_reduction
def _apart(x: Any, y: Any) -> Any:
    """||x - y||^2."""
    total = 0.0
    for j in range(x.shape[0]):
        total += (x[j] - y[j]) * (x[j] - y[j])
    return total


def _prepare_search(terms: Any, theta: Any, g: Any, batch: Any, work: Any) -> Any:
    prepare_search(terms.inside, theta, g, batch, work.inside)
    work.products[0] = dot(work.shift, g)
    work.products[1] = dot(g, g)
    return 0


def _trial_loss(terms: Any, theta: Any, g: Any, t: Any, batch: Any, work: Any) -> Any:
    along, square = work.products
    loss = trial_loss(terms.inside, theta, g, t, batch, work.inside)
    return loss - t * along + 0.5 * terms.curvature * t * t * square


def _depart(terms: Any, theta: Any, key: Any, k: Any, size: Any, work: Any) -> Any:
    if random_unit(second_key(key), k) < terms.probability + size * terms.per_sample:
        for j in range(theta.shape[0]):
            terms.anchor[j] = theta[j]
        _survey(terms.inside, terms.anchor, work.everyone, terms.gradient, work.whole)
    return 0


def _objective(terms: Any, point: Any, work: Any) -> Any:
    return objective(terms.inside, point, work.inside)


def _objectives(terms: Any, theta: Any, work: Any, out: Any) -> Any:
    return objectives(terms.inside, theta, work.inside, out)


def _gap(terms: Any, point: Any, work: Any) -> Any:
    return objective_gap(terms.inside, point, work.inside)


def _full_sqnorm(terms: Any, point: Any, work: Any) -> Any:
    return full_sqnorm(terms.inside, point, work.inside)


implement(
    ReducedTerms,
    {
        workspace: _workspace,
        evaluate: _evaluate,
        adds_up: _adds_up,
        loss_error: _loss_error,
        prepare_search: _prepare_search,
        trial_loss: _trial_loss,
        depart: _depart,
        objective: _objective,
        objectives: _objectives,
        objective_gap: _gap,
        full_sqnorm: _full_sqnorm,
    },
)
has_lanes(ReducedTerms, "anchor", "gradient")
has_lanes(ReducedWork, "shift", "products", nested=("inside",))
