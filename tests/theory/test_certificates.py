"""Certificates hold on honest runs and fail on every kind of dishonest one."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given

import heavystep
from heavystep import theory
from heavystep.certificates import certify
from heavystep.engine.batch import draw_samples, simulate
from heavystep.problems import paper_cosine, paper_least_squares
from heavystep.records import stack
from heavystep.theory.discounted import square
from theory_cases import ANY, LAWS, examples, make_problem, methods, problem_seeds, run

RULES = {"polyak": {"c": 0.75}, "armijo": {"c": 0.75, "omega": 0.5}}
SECTION_5 = {
    "interpolation": paper_least_squares(0.0),
    "noise": paper_least_squares(0.3),
    "strong growth": paper_cosine("strong_growth"),
    "weak growth": paper_cosine("noise"),
}
EXPECTED = {
    "interpolation": {"Theorem 1", "Theorem 2", "Theorem 4"},
    "noise": {"Theorem 1", "Theorem 2"},
    "strong growth": {"Theorem 3", "Theorem 5"},
    "weak growth": {"Theorem 3"},
}


def section_5_run(name, rule, *, runs=8, steps=200, beta=0.9):
    problem, options = SECTION_5[name], RULES[rule]
    gamma_max = 1.0
    if not problem.convex:
        gamma_max = 0.8 * theory.nonconvex_step_limit(
            rule, L=problem.L, rho=problem.rho, beta=beta, **options
        )
    samples = draw_samples(problem, runs=runs, steps=steps)
    return problem, simulate(problem, rule, samples, beta=beta, gamma_max=gamma_max, **options)


def diminishing_run(rule, problem, steps=200):
    samples = draw_samples(problem, runs=6, steps=steps)
    return simulate(
        problem, rule, samples, beta=LAWS.beta, gamma_max=LAWS.gamma_max, eta=LAWS.eta,
        scaling="plain", **RULES[rule],
    )  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", SECTION_5)
def test_section_5_keeps_its_promises(name, rule):
    problem, record = section_5_run(name, rule)
    certificate = certify(record, problem)
    assert certificate.holds, str(certificate)
    checked = {check.result for check in certificate.checks}
    assert checked >= {"Lemma 1", "Lemma 2", "Lemma 3", "Lemma 4"} | EXPECTED[name]
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
    assert checked >= {"Lemma 5", "Lemma 6", "Theorem 9"}
    assert ("Recursion of Theorem 6" in checked) == problem.convex
    assert checked | set(certificate.skipped) >= {f"Theorem {i}" for i in range(6, 10)}


@examples(150)
@given(seed=problem_seeds, method=methods(least_c=0.5, open_c=True))
def test_random_runs_keep_their_promises(seed, method):
    problem = make_problem(ANY, seed)
    samples = draw_samples(problem, runs=3, steps=30, seed=seed)
    certificate = certify(run(problem, method, samples, method["cap"] / problem.L), problem)
    pathwise = [c for c in certificate.checks if c.measured.ndim == 2]
    assert len(pathwise) >= 5
    assert all(check.holds for check in pathwise), str(certificate)


def faster(record):
    return replace(record, gamma=1.5 * record.gamma)


def slower(record):
    return replace(record, gamma=0.25 * record.gamma)


def other_momentum(record):
    """Iterates of torch's buffer form, with the same steps and gradients."""
    theta, buffer = record.iterates[:, 0], 0.0
    iterates = [theta]
    for k in range(record.steps):
        buffer = record.beta[k] * buffer + record.gradients[:, k]
        theta = theta - record.gamma[:, k, None] * buffer
        iterates.append(theta)
    return replace(record, iterates=np.stack(iterates, axis=1))


def shifted(record):
    return replace(record, iterates=record.iterates + np.linspace(0, 9, record.steps + 1)[:, None])


def uphill(record):
    """The same moves, away from where the gradients point."""
    return replace(record, iterates=2.0 * record.iterates[:, :1] - record.iterates)


LIES = [
    (faster, "Lemma 1"),
    (slower, "Lemma 2"),
    (other_momentum, "Lemma 3"),
    (uphill, "Lemma 4"),
    (shifted, "Recursion of Theorem 2"),
]


@pytest.mark.parametrize(("lie", "result"), LIES)
def test_a_run_that_cheats_fails(lie, result):
    problem, record = section_5_run("noise", "polyak", beta=0.5)
    certificate = certify(lie(record), problem)
    assert not certificate.holds
    assert result in {check.result for check in certificate.failures}
    assert "NO" in str(certificate)


BOUNDS = [
    ("interpolation", ["Theorem 1", "Theorem 2", "Theorem 4"]),
    ("strong growth", ["Theorem 3", "Theorem 5"]),
]


@pytest.mark.parametrize(("name", "results"), BOUNDS)
def test_theorem_bounds_can_fail(name, results):
    """A run that moves away from the optimum breaks every bound that goes to zero."""
    problem, record = section_5_run(name, "polyak", beta=0.0)
    away = record.iterates + 1e4 * np.arange(1, record.steps + 2)[:, None]
    away[:, 0] = record.iterates[:, 0]
    certificate = certify(replace(record, iterates=away, loss=record.loss + 1e12), problem)
    assert set(results) <= {check.result for check in certificate.failures}


def test_step_bounds_from_scalars_alone():
    problem, record = section_5_run("noise", "polyak")
    scalars = replace(record, iterates=None, gradients=None, samples=None)
    certificate = certify(scalars, L=problem.L)
    assert [check.result for check in certificate.checks] == ["Lemma 2", "Lemma 2", "Lemma 1"]
    assert certificate.holds
    assert not certify(scalars, L=problem.L / 2).holds
    assert len(certify(scalars).checks) == 2


def test_torch_runs_are_certified():
    """A recorder on an optimizer, attached in one line."""
    problem = paper_least_squares(0.3)
    samples = draw_samples(problem, runs=3, steps=60)
    A, b = torch.tensor(problem.A), torch.tensor(problem.b)
    records = []
    for indices in samples:
        theta = torch.tensor(problem.theta0, requires_grad=True)
        opt = heavystep.SHBPolyak([theta], momentum=0.9, c=0.75, scaling="theory")
        recorder = heavystep.Recorder(opt, iterates=True)
        for i in indices:
            opt.step(lambda: 0.5 * (A[i] @ theta - b[i]) ** 2)
        records.append(recorder.record())
    record = replace(stack(records), samples=samples)
    certificate = certify(record, problem)
    assert certificate.holds, str(certificate)
    assert {"Lemma 3", "Theorem 1", "Theorem 2"} <= {c.result for c in certificate.checks}
    twin = simulate(problem, "polyak", samples, beta=0.9, c=0.75, gamma_max=1.0)
    np.testing.assert_allclose(record.iterates, twin.iterates, rtol=1e-10, atol=1e-12)


def test_measured_is_the_mean_less_its_standard_error():
    problem, record = section_5_run("noise", "armijo", runs=5, steps=20)
    check = certify(record, problem)["Theorem 1"]
    runs = square(record.iterates - problem.theta_star)
    want = runs.mean(axis=0) - runs.std(axis=0, ddof=1) / np.sqrt(5)
    np.testing.assert_allclose(check.measured, want, rtol=1e-12)
    row = check.row()
    assert set(row) == {"result", "quantity", "k", "bound", "measured", "slack", "holds"}
    assert row["slack"] == pytest.approx(row["bound"] - row["measured"])


def test_least_of_the_means_not_mean_of_the_least():
    problem, record = section_5_run("weak growth", "polyak", runs=4, steps=30)
    check = certify(record, problem)["Theorem 3"]
    grad_sq = square(problem.full_gradient(record.iterates[:, :-1]))
    mean = grad_sq.mean(axis=0) - grad_sq.std(axis=0, ddof=1) / 2.0
    np.testing.assert_allclose(check.measured, np.minimum.accumulate(mean), rtol=1e-12)


REASONS = [
    (lambda r: replace(r, scaling="practical"), "Theorem 2", "scaling 'theory'"),
    (lambda r: replace(r, eta=0.5 * r.eta), "Theorem 2", "eta_k = 1"),
    (lambda r: replace(r, smooth_reset=True), "Theorem 2", "smooth reset"),
    (lambda r: replace(r, c=0.4), "Theorem 2", "needs c > 1/2, got c = 0.4"),
    (lambda r: replace(r, accepted=np.zeros_like(r.accepted)), "Theorem 1", "some were refused"),
    (lambda r: replace(r, beta=np.linspace(0.9, 0.1, r.steps)), "Theorem 1", "here they change"),
    (lambda r: r, "Theorem 4", r"needs sigma\^2 = 0"),
    (lambda r: r, "Theorem 3", "needs c >= rho / 4"),
]


@pytest.mark.parametrize(("change", "result", "reason"), REASONS)
def test_what_does_not_apply_is_listed_with_its_reason(change, result, reason):
    problem, record = section_5_run("noise", "polyak", runs=2, steps=5)
    certificate = certify(change(record), problem)
    assert result in certificate.skipped
    with pytest.raises(KeyError, match=reason):
        certificate[result]
    assert f"not checked: {result}" in str(certificate)


def test_one_run_cannot_speak_for_an_expectation():
    problem, record = section_5_run("noise", "polyak", runs=1, steps=5)
    certificate = certify(record, problem)
    assert "only one" in certificate.skipped["Theorem 2"]
    assert certificate.holds


def test_diminishing_theorems_need_the_schedules():
    problem = SECTION_5["noise"]
    record = diminishing_run("polyak", problem, steps=5)
    assert "needs the schedules" in certify(record, problem).skipped["Theorem 6"]
    other = LAWS._replace(eta=LAWS.eta._replace(initial=0.4))
    skipped = certify(record, problem, schedules=other).skipped
    assert "eta is not the schedule" in skipped["Theorem 6"]


def test_refused_and_vanished_steps_are_left_out():
    problem, record = section_5_run("noise", "polyak", runs=2, steps=10)
    accepted = record.accepted.copy()
    accepted[0, 3] = False
    gamma = record.gamma.copy()
    gamma[0, 3] = 0.0
    certificate = certify(replace(record, accepted=accepted, gamma=gamma), problem)
    assert certificate.holds
    assert certificate["Lemma 2"].applied == 19


def test_an_empty_certificate_certifies_nothing():
    assert not heavystep.certificates.Certificate(()).holds


@pytest.mark.parametrize("L", [0.0, -1.0, np.nan])
def test_bad_smoothness(L):
    _, record = section_5_run("noise", "polyak", runs=1, steps=2)
    with pytest.raises(ValueError, match="L must be > 0 and finite, got"):
        certify(record, L=L)


def test_stack_refuses_different_methods():
    _, record = section_5_run("noise", "polyak", runs=1, steps=3)
    assert stack([record, record]).runs == 2
    with pytest.raises(ValueError, match="different methods: c differs"):
        stack([record, replace(record, c=0.9)])
    with pytest.raises(ValueError, match="differ in iterates"):
        stack([record, replace(record, iterates=None)])
    with pytest.raises(ValueError, match="at least one record"):
        stack([])


@pytest.mark.parametrize("name", ["gamma", "loss", "grad_sqnorm", "iterates", "gradients"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_run_that_is_not_finite_is_refused(name, value):
    problem, record = section_5_run("noise", "polyak", runs=2, steps=4)
    broken = getattr(record, name).copy()
    broken[1, 2] = value
    with pytest.raises(ValueError, match=rf"{name} is not finite in run 1 at step 2"):
        certify(replace(record, **{name: broken}), problem)


def test_a_check_without_a_step_to_apply_to_is_not_made():
    problem, record = section_5_run("noise", "polyak", runs=2, steps=4)
    refused = replace(record, accepted=np.zeros_like(record.accepted))
    certificate = certify(replace(refused, iterates=None, gradients=None), problem)
    assert certificate.checks == ()
    assert not certificate.holds
    assert certificate.skipped["Lemma 2"] == "applies to no step of this run"


BAD_RECORDS = [
    ({"beta": np.zeros(3)}, r"beta must have shape \(4,\), got \(3,\)"),
    ({"loss": np.zeros((2, 5))}, r"loss must have shape \(2, 4\), got \(2, 5\)"),
    ({"iterates": np.zeros((2, 4, 20))}, r"iterates must have shape \(2, 5, 20\)"),
    ({"rule": "adam"}, r"rule must be 'polyak', or 'armijo' with omega, got 'adam'"),
    ({"rule": "armijo"}, r"rule must be 'polyak', or 'armijo' with omega"),
]


@pytest.mark.parametrize(("changes", "message"), BAD_RECORDS)
def test_bad_records(changes, message):
    _, record = section_5_run("noise", "polyak", runs=2, steps=4)
    with pytest.raises(ValueError, match=message):
        replace(record, **changes)
