"""Every record that lies is caught: a check fails, or the record is refused."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from heavystep.certificates import certify
from heavystep.certificates.lemmas import step_bias, uniform_samples
from heavystep.certificates.run import Run
from heavystep.certificates.theorems import tail_sums
from heavystep.problems import paper_least_squares
from heavystep.schedules import Schedules
from tests.certificates.falsified import (
    FALSIFIED,
    LAWS,
    PROBLEM,
    RUNS,
    SAMPLES,
    STEPS,
    away,
    honest,
    rerun,
)  # fmt: skip
from tests.helpers.certified_runs import section_5_run, torch_runs
from tests.helpers.runs import draw_samples, recorded
from tests.helpers.theory_cases import CONVEX, cosine, make_problem


def verdict(record):
    schedules = LAWS if record.scaling == "plain" else None
    try:
        return certify(record, PROBLEM, schedules=schedules)
    except (ValueError, TypeError) as refusal:
        return str(refusal)


@pytest.mark.parametrize("name", FALSIFIED)
def test_a_lie_is_caught(name):
    found = verdict(FALSIFIED[name]())
    assert isinstance(found, str) or not found.holds, str(found)
    assert isinstance(found, str) or "BROKEN" in str(found)


def test_there_are_enough_and_honest_runs_pass():
    assert len(FALSIFIED) >= 20
    for rule in ("polyak", "armijo"):
        certificate = verdict(honest(rule))
        assert certificate.holds, str(certificate)
        assert certificate.covered
        assert "Samples" in certificate
        assert "covered by Theorem 1, Theorem 2" in certificate.verdict


BIASED = ["the worst row only", "the first half of the rows", "early rows are likelier"]


@pytest.mark.parametrize("name", BIASED)
def test_biased_samples_are_told_by_their_own_check(name):
    check = verdict(FALSIFIED[name]())["Samples"]
    assert not check.holds
    assert "chi-square" in check.quantity


def test_fair_samples_pass_a_thousand_times():
    """One in 10^9 fails; the statistic is chi-square, so its mean is the number of cells less 1."""
    record, found = honest(), []
    rng = np.random.default_rng(2)
    for _ in range(300):
        samples = rng.integers(PROBLEM.n, size=SAMPLES.shape)
        run = Run(replace(record, samples=samples, iterates=None), PROBLEM, PROBLEM.L)
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


def test_the_tail_inequalities_can_fail_():
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


REFUSED = {
    "losses that are too large": "loss is not the problem's in run 0 at step 0",
    "gradients that are too small": "gradient is not the problem's",
    "squared norms that are too small": "grad_sqnorm is not that of",
    "samples that do not exist": "samples name no term .* has 512",
    "samples that are no whole numbers": "samples must be whole numbers",
    "points of another dimension": "points of 3 numbers",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_record_of_another_problem_is_refused(name):
    assert re.search(REFUSED[name], verdict(FALSIFIED[name]()))


@pytest.mark.parametrize("factor", [1.5, 0.25])
def test_float32_runs_can_fail(factor):
    record = torch_runs(PROBLEM, 5, 50, dtype=torch.float32)
    assert certify(record, PROBLEM).holds
    assert not certify(replace(record, gamma=factor * record.gamma), PROBLEM).holds
