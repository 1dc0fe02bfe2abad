"""Every record that lies is caught: a check fails, or the record is refused.

The lies are each about one thing and know nothing of what certificates look at.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from heavystep.certificates import certify
from heavystep.certificates.lemmas import step_bias, uniform_samples
from heavystep.certificates.run import Run
from heavystep.certificates.theorems import tail_sums
from heavystep.problems import LeastSquares, paper_least_squares
from heavystep.schedules import Schedules
from tests.helpers.certified_runs import section_5_run, torch_runs
from tests.helpers.runs import draw_samples, recorded
from tests.helpers.theory_cases import CONVEX, LAWS, cosine, make_problem

PROBLEM = paper_least_squares(noise=0.3)
BETA, RUNS, STEPS = 0.5, 6, 120
SAMPLES = draw_samples(PROBLEM, runs=RUNS, steps=STEPS)
POLYAK = {"beta": BETA, "c": 0.75, "gamma_max": 1.0}
OPTIONS = {"polyak": POLYAK, "armijo": {**POLYAK, "omega": 0.5}}


def honest(rule="polyak", samples=SAMPLES, **changes):
    return recorded(PROBLEM, rule, samples, **{**OPTIONS[rule], **changes})


def rerun(move, record, problem=PROBLEM):
    """True losses and gradients along iterates that another method made with the same steps."""
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


def buffered(share):
    def move(theta, before, memory, gamma, g):
        memory = BETA * memory + share * g
        return theta - gamma * memory, memory

    return move


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
AT = (1, 7)
FALSIFIED = {
    "steps half as long again": lambda r: replace(r, gamma=1.5 * r.gamma),
    "steps a quarter as long": lambda r: replace(r, gamma=0.25 * r.gamma),
    **{f"{rule}'s steps just below the smallest": lambda r, rule=rule: at_99_percent(rule)
       for rule in OPTIONS},
    "one step too long": lambda r: touched(r, "gamma", AT, lambda g: 2.0 * g),
    "a step above its cap": lambda r: touched(r, "gamma", AT, lambda g: 1.01),
    "a smaller cap is claimed": lambda r: replace(r, gamma_max=np.full(STEPS, 1e-3)),
    "a smaller c is claimed": lambda r: replace(honest(c=3.0), c=0.75),
    "a larger c is claimed": lambda r: replace(r, c=1.5),
    "practical steps pass for theory's": lambda r: replace(honest(scaling="practical"), scaling="theory"),
    "another momentum is claimed": lambda r: replace(honest(beta=0.6), beta=np.full(STEPS, BETA)),
    "momentum that is off by 1e-8": lambda r: rerun(heavy_ball(BETA * (1.0 + 1e-8)), r),
    "uphill": lambda r: rerun(heavy_ball(BETA, sign=-1.0), r),
    "Nesterov's momentum": lambda r: rerun(nesterov, r),
    "torch's buffer": lambda r: rerun(buffered(1.0), r),
    "averaged gradients": lambda r: rerun(buffered(1.0 - BETA), r),
    "an iterate that jumps": lambda r: touched(r, "iterates", AT, lambda x: x + 1e-6),
    "the last iterate is better than it was": lambda r: touched(
        r, "iterates", (0, STEPS), lambda x: PROBLEM.theta_star),
    "iterates of another run": lambda r: replace(r, iterates=r.iterates[::-1]),
    "a gradient with the other sign": lambda r: touched(r, "gradients", AT, lambda g: -g),
    "a gradient of another term": lambda r: touched(
        r, "gradients", AT, lambda g: PROBLEM.gradients(r.iterates[AT], np.array(3))),
    "squared norms that are too small": lambda r: replace(r, grad_sqnorm=0.5 * r.grad_sqnorm),
    "losses that are too large": lambda r: replace(r, loss=1.5 * r.loss),
    "a loss of another term": lambda r: touched(r, "loss", AT, lambda f: f + 0.1),
    "losses of another problem": lambda r: recorded(OTHER, "polyak", SAMPLES, **POLYAK),
    "infima that are too high": lambda r: replace(r, f_star=r.f_star + 0.01),
    "a refused step that moved": lambda r: replace(r, accepted=np.arange(STEPS) * np.ones((RUNS, 1)) != 5),
    "samples of another seed": lambda r: replace(r, samples=SAMPLES[::-1]),
    "samples that do not exist": lambda r: replace(r, samples=SAMPLES + PROBLEM.n),
    "samples that are no whole numbers": lambda r: replace(r, samples=SAMPLES + 0.0),
    "points of another dimension": lambda r: replace(r, iterates=r.iterates[..., :3], gradients=None),
    "gradients that are too small": lambda r: replace(
        r, gradients=0.95 * r.gradients, grad_sqnorm=0.95**2 * r.grad_sqnorm),
    "the worst row only": lambda r: drawn(np.arange(PROBLEM.n) == WORST),
    "the first half of the rows": lambda r: drawn(np.arange(PROBLEM.n) < PROBLEM.n // 2),
    "early rows are likelier": lambda r: drawn(np.linspace(3.0, 0.3, PROBLEM.n)),
    "a search that gave up early": lambda r: touched(honest("armijo"), "gamma", slice(None), lambda g: 0.05 * g),
    "a search with a smaller c": lambda r: replace(honest("armijo", c=0.05), c=0.75),
    "diminishing steps that do not diminish": lambda r: replace(
        honest(scaling="plain", beta=LAWS.beta, gamma_max=1.0), eta=LAWS.eta(np.arange(STEPS)),
        gamma_max=LAWS.gamma_max(np.arange(STEPS)),
    ),
}  # fmt: skip


def verdict(record):
    schedules = LAWS if record.scaling == "plain" else None
    try:
        return certify(record, PROBLEM, schedules=schedules)
    except (ValueError, TypeError) as refusal:
        return str(refusal)


@pytest.mark.parametrize("name", FALSIFIED)
def test_a_lie_is_caught(name):
    found = verdict(FALSIFIED[name](honest()))
    assert isinstance(found, str) or not found.holds, str(found)
    assert isinstance(found, str) or "BROKEN" in str(found)


def test_honest_runs_pass():
    for rule in ("polyak", "armijo"):
        certificate = verdict(honest(rule))
        assert certificate.holds, str(certificate)
        assert certificate.covered
        assert "Samples" in certificate
        assert "covered by Theorem 1, Theorem 2" in certificate.verdict


BIASED = ["the worst row only", "the first half of the rows", "early rows are likelier"]


@pytest.mark.parametrize("name", BIASED)
def test_biased_samples_are_told_by_their_own_check(name):
    check = verdict(FALSIFIED[name](honest()))["Samples"]
    assert not check.holds
    assert "chi-square" in check.quantity


def test_fair_samples_pass_a_thousand_times():
    """One in 10^9 fails; the statistic is chi-square, so its mean is the number of cells less 1."""
    record, found = honest(), []
    rng = np.random.default_rng(2)
    for _ in range(300):
        samples = rng.integers(PROBLEM.n, size=SAMPLES.shape)
        run = Run(replace(record, samples=samples, iterates=None), PROBLEM)
        check = uniform_samples("Samples", run)
        assert check.holds
        found.append(float(check.measured[0]))
    cells = RUNS * STEPS // 10
    assert np.mean(found) == pytest.approx(cells - 1, rel=0.05)
    assert np.var(found) == pytest.approx(2 * (cells - 1), rel=0.3)


def test_a_skipped_theorem_does_not_cover():
    """c = 0.4 obeys every lemma, and no theorem says anything about it."""
    record = honest(c=0.4)
    certificate = certify(record, PROBLEM, asked=["Theorem 2"])
    assert certificate.holds
    assert not certificate.covered
    assert certificate.verdict.startswith("Every check holds, but what was asked about does not")
    assert "Theorem 2 needs c > 1/2, got c = 0.4" in str(certificate)
    plain = certify(record, PROBLEM)
    assert not plain.covered
    assert plain.verdict == "Every check holds, but no theorem covers the run."
    assert certify(honest(), PROBLEM, asked="Theorem 2").covered
    assert not certify(honest(), PROBLEM, asked=["Theorem 2", "Theorem 3"]).covered
    with pytest.raises(ValueError, match="asked must be one of 'Lemma 1'"):
        certify(record, PROBLEM, asked=["Theorem 12"])


def test_bias_of_the_step_is_a_number_and_a_line():
    record = honest()
    bias = certify(record, PROBLEM).bias
    late = slice(STEPS // 2, None)
    gamma, g = record.gamma[:, late].ravel(), record.gradients[:, late].reshape(-1, PROBLEM.dim)
    difference = (gamma[:, None] * g).mean(axis=0) - gamma.mean() * g.mean(axis=0)
    size = gamma.mean() * np.sqrt((g * g).sum(axis=1).mean())
    assert bias.covariance == pytest.approx(np.linalg.norm(difference) / size, rel=1e-9)
    assert f"is {bias.covariance:.2g} of E[gamma]" in str(certify(record, PROBLEM))
    constant = replace(record, gamma=np.full_like(record.gamma, 1e-3))
    assert step_bias(constant).covariance < 1e-12
    assert step_bias(replace(record, gradients=None)) is None


def test_tails_far_below_the_sum_are_not_rounded_away():
    """A run that is at its minimum: the tail is 10^-25 of the whole, and its check can fail."""
    terms = 10.0 ** -np.arange(0.0, 60.0, 1.0)[None, :, None]
    sums, k, n = tail_sums(terms)
    want = [terms[0, i:j, 0].sum() for i, j in zip(n, k, strict=True)]
    np.testing.assert_allclose(sums[0, :, 0], want, rtol=1e-14)
    assert ((4 * n > k) & (2 * n <= k)).all()
    cumulative = np.cumsum(terms[0, :, 0])
    difference = cumulative[k - 1] - cumulative[n - 1]
    assert (difference[-20:] == 0.0).all()  # what the tail was before


def test_the_tail_inequalities_can_fail():
    """Their tolerance is a part of their own bound, however small the tail is beside the sum."""
    problem = paper_least_squares()
    samples = draw_samples(problem, runs=1, steps=400)
    record = recorded(
        problem, "polyak", samples, beta=LAWS.beta, gamma_max=LAWS.gamma_max, eta=LAWS.eta, c=0.75,
        scaling="plain",
    )  # fmt: skip
    certificate = certify(record, problem, schedules=LAWS)
    for result in ("Theorem 8", "Theorem 9"):
        check = certificate[f"Tail inequality of {result}"]
        assert check.holds
        assert (check.tolerance <= 1e-6 * check.bound).all()
        assert not replace(check, measured=1.1 * check.bound).holds


def broken(record, problem, schedules=None):
    moved = rerun(away, record, problem)
    return {check.result for check in certify(moved, problem, schedules=schedules).failures}


def test_bounds_of_theorems_can_fail():
    """A run that moves away from the optimum breaks every bound that goes to zero."""
    for name, results in (("interpolation", {1, 2, 4}), ("strong growth", {3, 5})):
        problem, record = section_5_run(name, "polyak", beta=0.0)
        assert {f"Theorem {number}" for number in results} <= broken(record, problem)


def test_diminishing_bounds_can_fail():
    """Small momentum and a short horizon: the constants of the proofs are within reach."""
    laws = Schedules.power_laws(0.5, 0.6, 0.05, 2.0, 1.0, 0.3, horizon=5.0)
    for builder, seed, rule, options, result in (
        (CONVEX, 3, "polyak", {"c": 0.75}, "Theorem 6"),
        ([cosine], 4, "armijo", {"c": 0.5, "omega": 0.5}, "Theorem 7"),
    ):
        problem = make_problem(builder, seed)
        laws = laws._replace(gamma_max=laws.gamma_max._replace(initial=0.2 / problem.L))
        samples = draw_samples(problem, runs=6, steps=60)
        record = recorded(problem, rule, samples, **laws._asdict(), **options, scaling="plain")
        assert certify(record, problem, schedules=laws)[result].holds
        assert result in broken(record, problem, laws)


@pytest.mark.parametrize("factor", [1.5, 0.25])
def test_float32_runs_can_fail(factor):
    record = torch_runs(PROBLEM, 5, 50, dtype=torch.float32)
    assert certify(record, PROBLEM).holds
    assert not certify(replace(record, gamma=factor * record.gamma), PROBLEM).holds
