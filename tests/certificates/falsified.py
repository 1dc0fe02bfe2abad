"""Records that lie, each about one thing. Nothing here knows what certificates look at."""

from dataclasses import replace

import numpy as np

from heavystep.problems import LeastSquares, paper_least_squares
from heavystep.schedules import Schedules
from tests.helpers.runs import draw_samples, recorded

PROBLEM = paper_least_squares(noise=0.3)
LAWS = Schedules.power_laws(0.5, 0.4, 0.9, 1.1, 0.02, 0.3)
BETA, RUNS, STEPS = 0.5, 6, 120
SAMPLES = draw_samples(PROBLEM, runs=RUNS, steps=STEPS)
POLYAK = {"beta": BETA, "c": 0.75, "gamma_max": 1.0}
OPTIONS = {"polyak": POLYAK, "armijo": {**POLYAK, "omega": 0.5}}


def honest(rule="polyak", samples=SAMPLES, **changes):
    return recorded(PROBLEM, rule, samples, **{**OPTIONS[rule], **changes})


def rerun(move, record=None, problem=PROBLEM):
    """True losses and gradients along iterates that another method made with the same steps."""
    record = honest() if record is None else record
    samples = record.samples
    theta = record.iterates[:, 0]
    memory, before = np.zeros_like(theta), theta
    iterates, gradients = [theta], []
    for k in range(record.steps):
        g = problem.gradients(theta, samples[:, k])
        gradients.append(g)
        new, memory = move(theta, before, memory, record.gamma[:, k, None], g)
        before, theta = theta, new
        iterates.append(theta)
    iterates, gradients = np.stack(iterates, axis=1), np.stack(gradients, axis=1)
    loss = problem.losses(iterates[:, :-1], samples)
    square = np.einsum("rkd,rkd->rk", gradients, gradients)
    return replace(record, iterates=iterates, gradients=gradients, loss=loss, grad_sqnorm=square)


def heavy_ball(momentum, sign=1.0):
    def move(theta, before, memory, gamma, g):
        return theta - sign * gamma * g + momentum * (theta - before), memory

    return move


def away(theta, before, memory, gamma, g):
    return theta + 1e4, memory


def nesterov(theta, before, memory, gamma, g):
    memory = BETA * memory - gamma * g
    return theta + BETA * memory - gamma * g, memory


def torch_buffer(theta, before, memory, gamma, g):
    memory = BETA * memory + g
    return theta - gamma * memory, memory


def averaged_gradient(theta, before, memory, gamma, g):
    memory = BETA * memory + (1.0 - BETA) * g
    return theta - gamma * memory, memory


def touched(record, name, where, change):
    """The record with one entry, row or block changed, everything else as it was."""
    values = np.array(getattr(record, name), dtype=float)
    values[where] = change(values[where])
    return replace(record, **{name: values})


def at_99_percent(rule):
    """Steps of 0.99 gamma_min, of which only the scalars are known."""
    record, options = honest(rule), OPTIONS[rule]
    u = 2.0 * options["omega"] * (1.0 - options["c"]) if "omega" in options else 0.5 / options["c"]
    least = (1.0 - BETA**0.5) ** 2 / 2.0 * u / PROBLEM.L
    return replace(record, gamma=np.full_like(record.gamma, 0.99 * least), iterates=None)


def drawn(weights):
    """Samples that were not drawn uniformly."""
    rng = np.random.default_rng(1)
    share = np.asarray(weights, dtype=float)
    return honest(samples=rng.choice(PROBLEM.n, size=(RUNS, STEPS), p=share / share.sum()))


LENGTHS = np.einsum("ij,ij->i", PROBLEM.A, PROBLEM.A)
WORST = LENGTHS.argmax()
OTHER = LeastSquares(PROBLEM.A, PROBLEM.b + 1e-3)
AT, TWICE = (1, 7), (lambda values: 2.0 * values)
FALSIFIED = {
    "steps half as long again": lambda: replace(honest(), gamma=1.5 * honest().gamma),
    "steps a quarter as long": lambda: replace(honest(), gamma=0.25 * honest().gamma),
    **{
        f"{rule}'s steps just below the smallest": lambda rule=rule: at_99_percent(rule)
        for rule in OPTIONS
    },
    "one step too long": lambda: touched(honest(), "gamma", AT, TWICE),
    "a step above its cap": lambda: touched(honest(), "gamma", AT, lambda g: 1.01),
    "a smaller cap is claimed": lambda: replace(honest(), gamma_max=np.full(STEPS, 1e-3)),
    "a smaller c is claimed": lambda: replace(honest(c=3.0), c=0.75),
    "a larger c is claimed": lambda: replace(honest(), c=1.5),
    "practical steps pass for theory's": lambda: replace(honest(scaling="practical"), scaling="theory"),
    "another momentum is claimed": lambda: replace(honest(beta=0.6), beta=np.full(STEPS, BETA)),
    "half the momentum": lambda: rerun(heavy_ball(0.5 * BETA)),
    "momentum that is off by 1e-8": lambda: rerun(heavy_ball(BETA * (1.0 + 1e-8))),
    "uphill": lambda: rerun(heavy_ball(BETA, sign=-1.0)),
    "Nesterov's momentum": lambda: rerun(nesterov),
    "torch's buffer": lambda: rerun(torch_buffer),
    "averaged gradients": lambda: rerun(averaged_gradient),
    "an iterate that jumps": lambda: touched(honest(), "iterates", AT, lambda x: x + 1e-6),
    "the last iterate is better than it was": lambda: touched(
        honest(), "iterates", (0, STEPS), lambda x: PROBLEM.theta_star
    ),
    "iterates of another run": lambda: replace(honest(), iterates=honest().iterates[::-1]),
    "a gradient with the other sign": lambda: touched(honest(), "gradients", AT, lambda g: -g),
    "a gradient of another term": lambda: touched(
        honest(), "gradients", AT, lambda g: PROBLEM.gradients(honest().iterates[AT], np.array(3))
    ),
    "squared norms that are too small": lambda: replace(
        honest(), grad_sqnorm=0.5 * honest().grad_sqnorm
    ),
    "losses that are too large": lambda: replace(honest(), loss=1.5 * honest().loss),
    "a loss of another term": lambda: touched(honest(), "loss", AT, lambda f: f + 0.1),
    "losses of another problem": lambda: recorded(OTHER, "polyak", SAMPLES, **POLYAK),
    "infima that are too high": lambda: replace(honest(), f_star=honest().f_star + 0.01),
    "a refused step that moved": lambda: replace(
        honest(), accepted=np.arange(STEPS) * np.ones((RUNS, 1)) != 5
    ),
    "a NaN": lambda: touched(honest(), "loss", AT, lambda f: np.nan),
    "samples of another seed": lambda: replace(honest(), samples=SAMPLES[::-1]),
    "samples that do not exist": lambda: replace(honest(), samples=SAMPLES + PROBLEM.n),
    "samples that are no whole numbers": lambda: replace(honest(), samples=SAMPLES + 0.0),
    "points of another dimension": lambda: replace(
        honest(), iterates=honest().iterates[..., :3], gradients=None
    ),
    "gradients that are too small": lambda: replace(
        honest(), gradients=0.95 * honest().gradients, grad_sqnorm=0.95**2 * honest().grad_sqnorm
    ),
    "the worst row only": lambda: drawn(np.arange(PROBLEM.n) == WORST),
    "the first half of the rows": lambda: drawn(np.arange(PROBLEM.n) < PROBLEM.n // 2),
    "the longest tenth of the rows": lambda: drawn(np.quantile(LENGTHS, 0.9) < LENGTHS),
    "early rows are likelier": lambda: drawn(np.linspace(3.0, 0.3, PROBLEM.n)),
    "a search that gave up early": lambda: touched(
        honest("armijo"), "gamma", slice(None), lambda g: 0.05 * g
    ),
    "a search with a smaller c": lambda: replace(honest("armijo", c=0.05), c=0.75),
    "diminishing steps that do not diminish": lambda: replace(
        honest(scaling="plain", beta=LAWS.beta, gamma_max=1.0), eta=LAWS.eta(np.arange(STEPS)),
        gamma_max=LAWS.gamma_max(np.arange(STEPS)),
    ),
}  # fmt: skip
