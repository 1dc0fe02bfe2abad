"""Runs of a finite sum side by side, recorded in full: what certificates are made from."""

from typing import Any

import numpy as np

from heavystep import validation
from heavystep.arrays import Array, square
from heavystep.problems import FiniteSum
from heavystep.records import Record
from heavystep.rules import (
    ArmijoSearch,
    ArmijoTest,
    armijo_advance,
    armijo_start,
    batch_is_finite,
    cannot_succeed,
    kappa,
    polyak_step,
)
from heavystep.schedules import PowerLaw
from heavystep.simulation import numpy_rules as numpy_rules
from heavystep.simulation.checks import (
    EPS,
    MAX_TRIALS,
    check_rule,
    check_schedule,
    checked_samples,
    schedule_values,
)


def draw_samples(problem: FiniteSum, *, runs: int, steps: int, seed: int = 0) -> Array:
    """(runs, steps) indices, uniform and independent; one random stream a run.

    >>> from heavystep.problems import paper_least_squares
    >>> draw_samples(paper_least_squares(), runs=2, steps=3).shape
    (2, 3)
    """
    streams = (np.random.default_rng([seed, run]) for run in range(runs))
    return np.array([stream.integers(0, problem.n, size=steps) for stream in streams])


def simulate(
    problem: FiniteSum,
    rule: str,
    samples: Any,
    *,
    beta: float | PowerLaw,
    c: float,
    gamma_max: float | PowerLaw,
    omega: float | None = None,
    eta: float | PowerLaw = 1.0,
    scaling: str = "theory",
) -> Record:
    r"""Stochastic heavy ball on a finite sum, all runs at once, every iterate kept.

    .. math:: \theta_{k+1} = \theta_k - \gamma_k g_k + \beta_k(\theta_k-\theta_{k-1}),
              \qquad \theta_{-1}=\theta_0

    The steps come from :mod:`heavystep.rules`, with the exact infima of the terms as lower
    bounds. Memory is runs x steps x dim numbers, twice.

    Args:
        problem: where it starts (``theta0``), losses and gradients.
        rule: ``"polyak"`` or ``"armijo"``.
        samples: (R, K) which term is sampled in which run at which step.
        beta: momentum; a number or a schedule, like ``gamma_max`` and ``eta``.
        c: divisor (Polyak) or sufficient decrease constant (Armijo).
        gamma_max: largest step before the multiplier.
        omega: backtracking factor; Armijo only.
        eta: outer multiplier.
        scaling: ``"theory"``, ``"practical"`` or ``"plain"``.

    Raises:
        ValueError: an argument is out of range, or a loss or gradient is not finite.

    >>> from heavystep.problems import LeastSquares
    >>> problem = LeastSquares([[1.0], [2.0]], [1.0, 2.0])
    >>> simulate(problem, "polyak", [[0, 1]], beta=0.0, c=0.5, gamma_max=1.0).iterates.tolist()
    [[[0.0], [0.5], [0.75]]]
    """
    check_rule(rule, c=c, omega=omega)
    samples = checked_samples(problem, samples, ndim=2)
    runs, steps = samples.shape
    check_schedule("beta", beta, validation.UNIT)
    check_schedule("gamma_max", gamma_max, validation.POSITIVE)
    check_schedule("eta", eta, validation.NON_NEGATIVE)
    betas, caps, etas = (schedule_values(s, np.arange(steps)) for s in (beta, gamma_max, eta))
    iterates = np.empty((runs, steps + 1, problem.dim))
    gradients = np.empty((runs, steps, problem.dim))
    gamma, loss, sqnorm, f_star = (np.empty((runs, steps)) for _ in range(4))
    theta = iterates[:, 0] = np.broadcast_to(problem.theta0, (runs, problem.dim))
    displacement = np.zeros_like(theta)
    for k in range(steps):
        i = samples[:, k]
        loss[:, k] = f = problem.losses(theta, i)
        gradients[:, k] = g = problem.gradients(theta, i)
        sqnorm[:, k] = g2 = square(g)
        f_star[:, k] = low = problem.f_star[i]
        if not batch_is_finite(f, g2).all():
            raise ValueError(f"loss or gradient is not finite at step {k}: the run diverged")
        factor = kappa(scaling, betas[k])
        if omega is None:
            base = polyak_step(f, g2, low, c, factor, caps[k])
        else:
            test = ArmijoTest(f, g2, low, c, omega, MAX_TRIALS, EPS)
            base = factor * _search(problem, test, caps[k] / factor, theta, g, i)
        gamma[:, k] = etas[k] * base
        displacement = betas[k] * displacement - gamma[:, k, None] * g
        iterates[:, k + 1] = theta = theta + displacement
    return Record(
        rule, scaling, c, omega, betas, caps, etas, gamma, loss, sqnorm, f_star,
        accepted=np.ones((runs, steps), dtype=bool),
        iterates=iterates, gradients=gradients, samples=samples,
    )  # fmt: skip


def _search(
    problem: FiniteSum, test: ArmijoTest, first: float, theta: Array, g: Array, i: Array
) -> Array:
    """The accepted trial step of each run; searches that are over wait for the others."""
    search = armijo_start(test, np.full(len(theta), first))
    while search.active.any():
        loss = problem.losses(theta - search.trial[:, None] * g, i)
        loss = np.where(cannot_succeed(test, search), np.inf, loss)
        with np.errstate(invalid="ignore"):  # inf - inf, by which `is_finite` finds it
            ahead = armijo_advance(test, search, loss)
        search = ArmijoSearch(*map(_keep_finished(search.active), ahead, search))
    if not search.accepted.all():
        raise ValueError(f"no trial step was accepted after {MAX_TRIALS} trials")
    trial: Array = search.trial
    return trial


def _keep_finished(active: Array) -> Any:
    return lambda new, old: np.where(active, new, old)
