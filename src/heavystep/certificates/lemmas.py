"""Checks at every step and along every run: Lemmas 1 to 6, and the recursions of the proofs."""

from statistics import NormalDist

import numpy as np

from heavystep.arrays import Array, square
from heavystep.certificates.check import TINY, Check, StepBias
from heavystep.certificates.run import Run
from heavystep.records import Record, heavy_ball_defect
from heavystep.theory.diminishing import diminishing_distance
from heavystep.theory.lemmas import (
    decoupling_identity,
    decoupling_inequality,
    discounted_sums,
    largest_slope,
)
from heavystep.theory.theorems import distance_recursion

SAMPLES = "needs to know which terms were sampled: certify(..., samples=)"
CHANCE = 1e-9
"""The chance that samples which were drawn uniformly fail their test."""
FEWEST_DRAWS = 10
"""The least expected count of a cell; with fewer draws the statistic is not chi-square."""
SMALLEST_SCALE = 1e-280
"""Products of terms are added up, and those near tiny / eps = 1e-292 have lost digits."""


def _taken(record: Record) -> Array:
    """(R, K) the steps; NaN where the batch was refused or the gradient vanished."""
    # A squared norm below the normal numbers has lost digits.
    moved = record.accepted & (record.grad_sqnorm > record.tiny / record.eps)
    return np.where(moved, record.gamma, np.nan)


def largest_step(result: str, run: Run) -> Check:
    """Lemmas 2 and 5."""
    gamma = _taken(run.record)
    largest = np.broadcast_to(run.record.eta * run.record.gamma_max, gamma.shape)
    return Check(result, "gamma_k <= eta_k gamma_max,k", run.k, gamma, largest, run.unit * largest)


def smallest_step(result: str, run: Run) -> Check:
    """Lemmas 2 and 5, where rounding of the losses does not decide."""
    record, gamma = run.record, _taken(run.record)
    if record.smooth_reset:
        raise ValueError("is about a given cap, the run used smooth reset")
    least = np.broadcast_to(record.eta * run.least_steps(), gamma.shape)
    gap, trial = record.loss - record.f_star, least / (record.eta * run.kappas)
    decisive = record.theory.decisive_loss(record.c, gap, record.grad_sqnorm, trial)
    blur = np.full_like(decisive, np.inf)
    np.divide(run.loss_error, decisive, out=blur, where=decisive > 0.0)
    relative = run.unit + blur
    resolved = np.where(relative < 0.5, gamma, np.nan)
    quantity = f"gamma_k >= eta_k gamma_min,k{run.note}"
    bounds = result.removesuffix(", smallest step")
    return Check(bounds, quantity, run.k, resolved, least, relative * least, lower=True)


def basic_inequality(result: str, run: Run) -> Check:
    """Lemmas 1 and 6."""
    record = run.record
    if not np.isfinite(record.f_star).all():
        raise ValueError("needs lower bounds of the losses, the run had none")
    factor = largest_slope(record.scaling, beta=record.beta, eta=record.eta, c=record.c, gap=1.0)
    bound = factor * (record.loss - record.f_star)
    tolerance = factor * run.loss_error + run.unit * abs(bound)
    quantity = "gamma_k ||g_k||^2 <= eta_k kappa / c (f_k - f*)"
    return Check(result, quantity, run.k, _taken(record) * record.grad_sqnorm, bound, tolerance)


def uniform_samples(result: str, run: Run) -> Check:
    r"""A chi-square test of how often each term was drawn, which theorems want to be uniform.

    Neighbouring terms are put into one cell until each expects ten draws. The limit is Wilson and
    Hilferty's :math:`d (1 - 2/(9d) + z \sqrt{2/(9d)})^3` for d degrees of freedom. Draws that are
    *more* even than chance, as in epochs without replacement, pass.
    """
    samples, n = run.record.samples, run.problem.n
    if samples is None:
        raise ValueError(SAMPLES)
    cells = min(n, samples.size // FEWEST_DRAWS)
    if cells < 2:
        raise ValueError(f"needs {2 * FEWEST_DRAWS} draws from several terms")
    cell = np.arange(n) * cells // n
    expected = samples.size * np.bincount(cell) / n
    counts = np.bincount(cell[samples.ravel()], minlength=cells)
    found, spread = float(((counts - expected) ** 2 / expected).sum()), 2.0 / (9.0 * (cells - 1))
    z = NormalDist().inv_cdf(1.0 - CHANCE)
    limit = (cells - 1) * (1.0 - spread + z * spread**0.5) ** 3
    k, measured, bound = (np.array([each]) for each in (run.record.steps, found, limit))
    quantity = "chi-square of how often each term was drawn"
    return Check(result, quantity, k, measured, bound)


def step_bias(record: Record) -> StepBias | None:
    """Over the second half of all runs; None without gradients, or where no step was taken."""
    if record.gradients is None:
        return None
    late = np.broadcast_to(np.arange(record.steps) >= record.steps // 2, record.gamma.shape)
    used = record.accepted & late
    gamma, gradients = record.gamma[used], record.gradients[used]
    scale = gamma.mean() * np.sqrt(square(gradients).mean()) if len(gamma) else 0.0
    if not scale > 0.0:
        return None
    covariance = (gamma - gamma.mean()) @ (gradients - gradients.mean(axis=0)) / len(gamma)
    chance = gamma.std() / gamma.mean() / np.sqrt(len(gamma))
    return StepBias(float(np.linalg.norm(covariance) / scale), float(chance))


def heavy_ball(result: str, run: Run) -> Check:
    """Each step is one of heavy ball; of a point only the coordinate with the largest error."""
    record = run.record
    error, size = heavy_ball_defect(
        run.iterates, record.gamma, record.gradients, record.beta, record.accepted
    )
    error, allowed = abs(error), run.unit * size + TINY
    worst = (error / allowed).argmax(axis=-1)[..., None]
    measured, bound = (np.take_along_axis(e, worst, axis=-1)[..., 0] for e in (error, allowed))
    quantity = "|theta_{k+1} - theta_k + gamma_k g_k - beta_k (theta_k - theta_{k-1})|"
    return Check(result, quantity, run.k, measured, bound)


def identity(result: str, run: Run) -> Check:
    """Lemma 3, which holds for every point; theta* is the one that the proofs use."""
    beta, record = run.constant_momentum(), run.record
    point = run.before[0, 0] if run.given is None else run.given.theta_star
    left, right, scale = decoupling_identity(
        run.before, record.gamma, record.gradients, beta=beta, point=point
    )
    measured = np.full_like(scale, np.nan)
    np.divide(abs(left - right), scale, out=measured, where=scale > SMALLEST_SCALE)
    bound = np.full_like(measured, run.unit)
    return Check(result, "|left - right| / size", run.k, measured, bound)


def inequality(result: str, run: Run) -> Check:
    """Lemma 4."""
    beta, record, problem = run.constant_momentum(), run.record, run.problem
    L, objective = problem.L, problem.objective(run.iterates)
    full = problem.full_gradient(run.iterates)
    bound, size = decoupling_inequality(
        record.gamma, record.gradients, full[:, :-1], L=L, beta=beta
    )
    error, norms = run.point_error, np.linalg.norm(full, axis=-1)
    losses = run.unit * abs(objective) + norms * error + L * error**2 + TINY
    slopes = norms[:, :-1] + np.sqrt(record.grad_sqnorm) + L * error[:, :-1]
    products = discounted_sums(beta, record.gamma * slopes * L * error[:, :-1], axis=-1)
    tolerance = losses[:, 1:] + losses[:, :-1] + run.unit * size + 2.0 * products
    change = objective[:, 1:] - objective[:, :-1]
    return Check(result, "F(theta_{k+1}) - F(theta_k)", run.k, change, bound, tolerance)


def recursion(result: str, run: Run) -> Check:
    """||theta_{k+1} - theta*||^2 against the recursion of Theorem 2 or of Theorem 6."""
    run.convex()
    record, dist = run.record, run.dist_sq()
    if record.samples is None or not np.isfinite(record.f_star).all():
        raise ValueError(SAMPLES)
    run.every_batch_used()
    theta_star = np.broadcast_to(run.problem.theta_star, run.before.shape)
    optimal_gap = run.problem.losses(theta_star, record.samples) - record.f_star
    gap = record.loss - record.f_star
    if record.scaling == "plain":
        moved = np.zeros_like(gap)
        moved[:, 1:] = square(run.before[:, 1:] - run.before[:, :-1])
        bound = diminishing_distance(
            dist[:, :-1], moved, gap, optimal_gap,
            gamma=record.gamma, eta=record.eta, beta=record.beta, c=record.c,
        )  # fmt: skip
    elif (record.eta != 1.0).any():
        raise ValueError("is about eta_k = 1")
    else:
        beta = run.constant_momentum()
        bound = distance_recursion(
            dist[:, :-1], record.gamma, gap, optimal_gap, beta=beta, c=record.c
        )
    error = run.point_error
    points = np.sqrt(dist) * error + error**2
    losses = discounted_sums(float(record.beta.max()), record.gamma * run.loss_error, axis=-1)
    tolerance = 2.0 * (points[:, 1:] + points[:, :-1]) + 4.0 * losses
    tolerance += run.unit * (dist[:, 1:] + dist[:, :-1])
    return Check(result, "||theta_{k+1} - theta*||^2", run.k, dist[:, 1:], bound, tolerance)
