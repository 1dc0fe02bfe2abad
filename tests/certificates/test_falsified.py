"""Every record that lies is caught: a check fails, or the record is refused."""

from dataclasses import replace

import numpy as np
import pytest

from heavystep.certificates import certify
from heavystep.certificates.lemmas import sample_check, step_bias
from heavystep.certificates.theorems import tail_sums
from heavystep.problems import paper_least_squares
from tests.certificates.falsified import (
    FALSIFIED,
    LAWS,
    PROBLEM,
    RUNS,
    SAMPLES,
    STEPS,
    drawn,
    honest,
)
from tests.helpers.runs import draw_samples, recorded


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
        check = sample_check(replace(record, samples=samples), PROBLEM.n)
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


def test_uneven_weights_make_the_even_ones():
    assert certify(drawn(np.ones(PROBLEM.n)), PROBLEM)["Samples"].holds
