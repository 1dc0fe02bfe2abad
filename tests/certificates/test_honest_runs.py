"""Certificates hold on honest runs, made here or by torch optimizers."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given

import heavystep
from heavystep.certificates import certify
from heavystep.problems import LeastSquares, paper_least_squares
from heavystep.records import stack
from tests.helpers.certified_runs import (
    RULES,
    SECTION_5,
    diminishing_run,
    section_5_run,
    torch_runs,
)
from tests.helpers.examples import examples
from tests.helpers.runs import draw_samples, recorded
from tests.helpers.theory_cases import ANY, LAWS, make_problem, methods, problem_seeds, run

pytestmark = pytest.mark.slow

EXPECTED = {
    "interpolation": {"Theorem 1", "Theorem 2", "Theorem 4"},
    "noise": {"Theorem 1", "Theorem 2"},
    "strong growth": {"Theorem 3", "Theorem 5"},
    "weak growth": {"Theorem 3"},
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", SECTION_5)
def test_section_5_keeps_its_promises(name, rule):
    problem, record = section_5_run(name, rule)
    certificate = certify(record, problem)
    assert certificate.holds, str(certificate)
    checked = {check.result for check in certificate.checks}
    lemmas = {"Heavy ball", "Lemma 1", "Lemma 2", "Lemma 3", "Lemma 4"}
    assert checked >= lemmas | EXPECTED[name]
    theorems = {f"Theorem {i}" for i in range(1, 6)}
    assert theorems == (checked | set(certificate.skipped)) & theorems
    assert all(check.applied > 0 for check in certificate.checks)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["noise", "weak growth"])
def test_diminishing_runs_keep_their_promises(name, rule):
    problem = SECTION_5[name]
    certificate = certify(diminishing_run(rule, problem), problem, schedules=LAWS)
    assert certificate.holds, str(certificate)
    checked = {check.result for check in certificate.checks}
    assert checked >= {"Heavy ball", "Lemma 5", "Lemma 6", "Tail inequality of Theorem 9"}
    assert ("Recursion of Theorem 6" in certificate) == problem.convex
    assert checked | set(certificate.skipped) >= {"Theorem 6", "Theorem 7", "Lemma 3", "Lemma 4"}


@examples(150)
@given(seed=problem_seeds, method=methods(least_c=0.5, open_c=True))
def test_random_runs_keep_their_promises(seed, method):
    problem = make_problem(ANY, seed)
    samples = draw_samples(problem, runs=3, steps=30, seed=seed)
    certificate = certify(run(problem, method, samples, method["cap"] / problem.L), problem)
    pathwise = [c for c in certificate.checks if c.measured.ndim == 2]
    assert len(pathwise) >= 5
    assert all(check.holds for check in pathwise), str(certificate)


def test_other_starts_have_other_bounds():
    """Theorem 4's sum is bounded by the distance of each run's own start."""
    starts = [0.01, 0.01, 0.01, 10.0, 0.1]
    records = []
    for seed, scale in enumerate(starts):
        problem = LeastSquares(np.eye(2), [1.0, 2.0], theta0=[1.0 + scale, 2.0 - scale])
        samples = draw_samples(problem, runs=1, steps=200, seed=seed)
        records.append(recorded(problem, "polyak", samples, beta=0.5, c=0.75, gamma_max=1.0))
    check = certify(stack(records), problem)["Theorem 4"]
    assert check.holds
    assert check.bound[3, 0] > 1e4 * check.bound[0, 0]


LOWER_BOUNDS = [
    (0.0, True, {"Theorem 1", "Theorem 2", "Theorem 4"}),
    (-1.0, True, {"Theorem 1", "Theorem 2"}),
    (0.5, False, set()),
]


@pytest.mark.parametrize(("bound", "valid", "checked"), LOWER_BOUNDS)
@pytest.mark.filterwarnings("ignore:.* recent steps are max_step")
def test_sigma_counts_from_the_lower_bound_that_was_used(bound, valid, checked):
    problem = LeastSquares([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1.0, 2.0, 3.0])
    certificate = certify(torch_runs(problem, 6, 300, lower_bound=bound, max_step=0.5), problem)
    assert certificate.holds == valid or not valid
    assert checked == {r for r in ("Theorem 1", "Theorem 2", "Theorem 4") if r in certificate}
    if not valid:
        assert "needs lower bounds <= f*(x)" in certificate.skipped["Theorem 2"]


def test_a_line_search_without_a_lower_bound_is_certified():
    problem = LeastSquares([[1.0, 0.0], [0.0, 2.0]], [1.0, 2.0])
    record = torch_runs(
        problem, 5, 40, heavystep.SHBArmijo, max_trials=1000, lower_bound=None, max_step=0.5
    )
    assert np.isneginf(record.f_star).all()
    certificate = certify(record, problem)
    assert certificate.holds, str(certificate)
    assert {"Lemma 1", "Theorem 4", "Recursion of Theorem 2"} <= {c.result for c in certificate}
    alone = certify(replace(record, samples=None), problem)
    assert "had none" in alone.skipped["Lemma 1"]
    assert "samples=" in alone.skipped["Theorem 4"]


def test_float32_runs_down_to_underflow_are_certified():
    problem = LeastSquares([[1.0]], [0.0], theta0=[1.0])
    record = torch_runs(problem, 5, 900, dtype=torch.float32)
    assert record.loss.min() < 2e-44
    certificate = certify(record, problem)
    assert certificate.holds, str(certificate)


def test_torch_runs_are_certified():
    """A recorder on an optimizer, attached in one line."""
    problem = paper_least_squares(0.3)
    record = torch_runs(problem, 5, 60)
    certificate = certify(record, problem)
    assert certificate.holds, str(certificate)
    assert {"Lemma 3", "Theorem 1", "Theorem 2"} <= {c.result for c in certificate}
    twin = recorded(problem, "polyak", record.samples, beta=0.5, c=0.75, gamma_max=1.0)
    np.testing.assert_allclose(record.iterates, twin.iterates, rtol=1e-10, atol=1e-12)


def test_diminishing_torch_runs_are_certified():
    problem = paper_least_squares(0.3)
    samples = draw_samples(problem, runs=5, steps=40)
    A, b = torch.tensor(problem.A), torch.tensor(problem.b)
    records = []
    for indices in samples:
        theta = torch.tensor(problem.theta0, requires_grad=True)
        opt = heavystep.SHBPolyak([theta], c=0.75, scaling="plain", max_step=0.02)
        schedule = heavystep.Diminishing(opt)
        recorder = heavystep.Recorder(opt, iterates=True)
        for i in indices:
            opt.step(lambda: 0.5 * (A[i] @ theta - b[i]) ** 2)
            schedule.step()
        records.append(recorder.record())
    certificate = certify(stack(records), problem, schedules=schedule.schedules, samples=samples)
    assert certificate.holds, str(certificate)
    assert {"Lemma 5", "Lemma 6", "Theorem 6", "Recursion of Theorem 6"} <= {
        check.result for check in certificate
    }
    assert schedule.schedules == LAWS
