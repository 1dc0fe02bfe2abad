"""What a record does not allow is left out with its reason; what is no record is refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import heavystep
from heavystep.certificates import certify
from heavystep.records import stack
from tests.helpers.certified_runs import SECTION_5, diminishing_run, section_5_run
from tests.helpers.theory_cases import LAWS


def test_without_samples_the_problem_is_taken_on_trust_and_said_so():
    problem, record = section_5_run("noise", "polyak", runs=2, steps=6)
    certificate = certify(replace(record, samples=None), problem)
    assert "on trust" in certificate.skipped["the problem"]
    assert "samples=" in certificate.skipped["Recursion of Theorem 2"]
    known = certify(replace(record, samples=None), problem, samples=record.samples)
    assert "Recursion of Theorem 2" in known


def test_bounds_above_the_infima_are_refused_for_non_convex_runs_too():
    problem, record = section_5_run("strong growth", "polyak", runs=5, steps=4)
    high = replace(record, f_star=record.f_star + 0.5, loss=record.loss)
    for known in (high, replace(high, samples=None)):
        skipped = certify(known, problem).skipped
        for theorem in ("Theorem 3", "Theorem 5"):
            assert "needs lower bounds <= f*(x)" in skipped[theorem]


def test_step_bounds_from_scalars_alone():
    problem, record = section_5_run("noise", "polyak")
    scalars = replace(record, iterates=None, gradients=None, samples=None)
    certificate = certify(scalars, L=problem.L)
    assert [check.result for check in certificate] == ["Lemma 2", "Lemma 2", "Lemma 1"]
    assert certificate.holds
    assert not certify(scalars, L=problem.L / 2).holds
    without = certify(scalars)
    assert len(without) == 2
    assert "needs the problem or its L" in without.skipped["Lemma 2, smallest step"]


WRONG_KINDS = [
    (lambda r, p: certify([r], p), TypeError, "record must be a Record, got list"),
    (lambda r, p: certify(None, p), TypeError, "record must be a Record, got NoneType"),
    (lambda r, p: certify(r, 42.0), TypeError, "problem must be a FiniteSum, got float"),
    (lambda r, p: certify(r, p, schedules={}), TypeError, "schedules must be a Schedules"),
    (lambda r, p: certify(r, p, L=2.0), ValueError, "give the problem or L, not both"),
    *((lambda r, p, L=L: certify(r, L=L), ValueError, "L must be > 0 and finite, got")
      for L in (0.0, -1.0, np.nan)),
    (lambda r, p: certify(heavystep.Recorder(heavystep.SHBPolyak([torch.zeros(2, requires_grad=True)]))),
     TypeError, r"got Recorder: call its record\(\)"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), WRONG_KINDS)
def test_wrong_kinds(call, error, message):
    problem, record = section_5_run("noise", "polyak", runs=1, steps=2)
    with pytest.raises(error, match=message):
        call(record, problem)


REASONS = [
    (lambda r: replace(r, scaling="practical"), "Theorem 2", "scaling 'theory'"),
    (lambda r: replace(r, beta=np.linspace(0.9, 0.1, r.steps)), "Lemma 3", "here it changes"),
    (lambda r: replace(r, accepted=np.zeros_like(r.accepted)), "Lemma 4", "some were refused"),
    (lambda r: replace(r, iterates=None), "Theorem 2", "needs iterates and gradients"),
    (lambda r: replace(r, smooth_reset=True), "Lemma 2, smallest step", "smooth reset"),
    (lambda r: replace(r, eta=0.5 * r.eta), "Theorem 2", "eta_k = 1"),
    (lambda r: replace(r, smooth_reset=True), "Theorem 2", "smooth reset"),
    (lambda r: replace(r, c=0.4), "Theorem 2", "needs c > 1/2, got c = 0.4"),
    (lambda r: replace(r, accepted=np.zeros_like(r.accepted)), "Theorem 1", "some were refused"),
    (lambda r: replace(r, beta=np.linspace(0.9, 0.1, r.steps)), "Theorem 1", "here they change"),
    (lambda r: r, "Theorem 4", r"needs sigma\^2 = 0"),
    (lambda r: r, "Theorem 3", "needs c >= rho / 4"),
    (lambda r: r, "Theorem 2", "which takes 5, got 2"),
]


@pytest.mark.parametrize(("change", "result", "reason"), REASONS)
def test_what_does_not_apply_is_listed_with_its_reason(change, result, reason):
    problem, record = section_5_run("noise", "polyak", runs=2, steps=5)
    certificate = certify(change(record), problem)
    assert result in certificate.skipped
    with pytest.raises(KeyError, match=reason):
        certificate[result]
    assert f"not checked: {result}" in str(certificate)


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
    scalars = replace(record, accepted=accepted, gamma=gamma, iterates=None, gradients=None)
    certificate = certify(scalars, problem)
    assert certificate.holds
    assert certificate["Lemma 2"].applied == 19


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
    assert "applies to no step of this run" in certificate.skipped.values()


BAD_RECORDS = [
    ({"scaling": "fast"}, r"scaling must be one of 'theory', 'practical', 'plain', got 'fast'"),
    ({"eta": np.full(4, np.nan)}, r"eta must be finite, got"),
    ({"f_star": np.full((2, 4), np.nan)}, r"f_star must hold lower bounds or -inf, got NaN"),
    ({"gamma": np.zeros(4)}, r"gamma must have shape \(R, K\), got \(4,\)"),
    ({"beta": np.zeros(3)}, r"beta must have shape \(4,\), got \(3,\)"),
    ({"loss": np.zeros((2, 5))}, r"loss must have shape \(2, 4\), got \(2, 5\)"),
    ({"iterates": np.zeros((2, 4, 20))}, r"iterates must have shape \(2, 5, 20\)"),
    ({"rule": "armijo"}, r"Record needs omega in \(0, 1\) for the Armijo rule, got omega = None"),
    ({"omega": 0.5}, r"the Polyak rule has no omega, got omega = 0.5"),
    ({"c": np.nan}, r"Record needs c > 0 and finite, got c = nan"),
]


@pytest.mark.parametrize(("changes", "message"), BAD_RECORDS)
def test_bad_records(changes, message):
    _, record = section_5_run("noise", "polyak", runs=2, steps=4)
    with pytest.raises(ValueError, match=message):
        replace(record, **changes)
