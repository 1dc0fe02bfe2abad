"""Certificates hold on honest runs, measure what they say, and list what does not apply."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given

import heavystep
from heavystep.arrays import square
from heavystep.certificates import Check, certify
from heavystep.problems import LeastSquares, paper_least_squares
from heavystep.records import stack
from tests import reference
from tests.helpers.certified_runs import (
    RULES,
    SECTION_5,
    diminishing_run,
    section_5_run,
    torch_runs,
)  # fmt: skip
from tests.helpers.examples import examples
from tests.helpers.runs import draw_samples, recorded
from tests.helpers.theory_cases import ANY, LAWS, make_problem, methods, problem_seeds, run

PAPER = paper_least_squares(0.3)
LEMMAS = {"Heavy ball", "Lemma 1", "Lemma 2", "Lemma 3", "Lemma 4"}
THEOREMS = {"interpolation": "124", "noise": "12", "strong growth": "35", "weak growth": "3"}


def of_torch():
    """A recorder on an optimizer, attached in one line, sees what the literal loop does."""
    record = torch_runs(PAPER, 5, 60)
    twin = recorded(PAPER, "polyak", record.samples, beta=0.5, c=0.75, gamma_max=1.0)
    np.testing.assert_allclose(record.iterates, twin.iterates, rtol=1e-10, atol=1e-12)
    return PAPER, record


def of_float32():
    problem = LeastSquares([[1.0]], [0.0], theta0=[1.0])
    record = torch_runs(problem, 5, 900, dtype=torch.float32)
    assert record.loss.min() < 2e-44
    return problem, record


def without_a_lower_bound():
    problem = LeastSquares([[1.0, 0.0], [0.0, 2.0]], [1.0, 2.0])
    options = {"max_trials": 1000, "lower_bound": None, "max_step": 0.5}
    record = torch_runs(problem, 5, 40, heavystep.SHBArmijo, **options)
    assert np.isneginf(record.f_star).all()
    return problem, record


def diminishing_torch():
    options = {"momentum": 0.9, "scaling": "plain", "max_step": 0.02}
    return PAPER, torch_runs(PAPER, 5, 40, diminishing=True, **options)


HONEST = [
    *((f"{name}, {rule}", partial(section_5_run, name, rule), LEMMAS | {f"Theorem {i}" for i in numbers})
      for name, numbers in THEOREMS.items() for rule in RULES),
    *((f"diminishing, {name}, {rule}",
       lambda name=name, rule=rule: (SECTION_5[name], diminishing_run(rule, SECTION_5[name])),
       {"Heavy ball", "Lemma 5", "Lemma 6", "Tail inequality of Theorem 9", *recursion})
      for name, recursion in (("noise", ["Recursion of Theorem 6"]), ("weak growth", []))
      for rule in RULES),
    ("torch", of_torch, {"Lemma 3", "Theorem 1", "Theorem 2"}),
    ("torch, diminishing", diminishing_torch,
     {"Lemma 5", "Lemma 6", "Theorem 6", "Recursion of Theorem 6"}),
    ("torch in float32, down to underflow", of_float32, {"Lemma 1"}),
    ("torch, a search without a lower bound", without_a_lower_bound,
     {"Lemma 1", "Theorem 4", "Recursion of Theorem 2"}),
]  # fmt: skip
"""Name, problem and record, and results that must be checked."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "results"), [case[1:] for case in HONEST], ids=[c[0] for c in HONEST]
)
def test_honest_runs_keep_their_promises(make, results):
    problem, record = make()
    schedules = {"plain": LAWS}.get(record.scaling)
    certificate = certify(record, problem, schedules=schedules)
    assert certificate.holds, str(certificate)
    checked = {check.result for check in certificate}
    assert checked >= results
    assert all(check.applied > 0 for check in certificate)
    told = {f"Theorem {i}" for i in ((6, 7) if schedules else range(1, 6))} | {"Lemma 3", "Lemma 4"}
    assert told <= checked | set(certificate.skipped)


@pytest.mark.slow
def test_a_search_without_a_lower_bound_needs_the_samples():
    problem, record = without_a_lower_bound()
    skipped = certify(replace(record, samples=None), problem).skipped
    assert "had none" in skipped["Lemma 1"]
    assert "samples=" in skipped["Theorem 4"]


@pytest.mark.slow
@examples(150)
@given(seed=problem_seeds, method=methods(least_c=0.5, open_c=True))
def test_random_runs_keep_their_promises(seed, method):
    problem = make_problem(ANY, seed)
    samples = draw_samples(problem, runs=3, steps=30, seed=seed)
    certificate = certify(run(problem, method, samples, method["cap"] / problem.L), problem)
    pathwise = [c for c in certificate.checks if c.measured.ndim == 2]
    assert len(pathwise) >= 5
    assert all(check.holds for check in pathwise), str(certificate)


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(("bound", "valid", "checked"), LOWER_BOUNDS)
@pytest.mark.filterwarnings("ignore:.* recent steps are max_step")
def test_sigma_counts_from_the_lower_bound_that_was_used(bound, valid, checked):
    problem = LeastSquares([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1.0, 2.0, 3.0])
    certificate = certify(torch_runs(problem, 6, 300, lower_bound=bound, max_step=0.5), problem)
    assert certificate.holds == valid or not valid
    assert checked == {r for r in ("Theorem 1", "Theorem 2", "Theorem 4") if r in certificate}
    if not valid:
        assert "needs lower bounds <= f*(x)" in certificate.skipped["Theorem 2"]


def optimal_losses(record, problem):
    theta_star = np.broadcast_to(problem.theta_star, record.gradients.shape)
    return problem.losses(theta_star, record.samples)


def test_recursions_are_fed_with_the_run():
    """The bound of the table, from the record by hand."""
    problem = SECTION_5["noise"]
    record = diminishing_run("polyak", problem, steps=12)
    bound = certify(record, problem, schedules=LAWS)["Recursion of Theorem 6"].bound
    dist = square(record.iterates - problem.theta_star)
    optimal = optimal_losses(record, problem)
    for k in range(12):
        moved = square(record.iterates[:, k] - record.iterates[:, max(k - 1, 0)])
        want = reference.diminishing_distance(
            dist[:, k], moved, record.loss[:, k], optimal[:, k], record.gamma[:, k],
            LAWS.eta(k), LAWS.beta(k), 0.75,
        )  # fmt: skip
        np.testing.assert_allclose(bound[:, k], want, rtol=1e-12)
    _, record = section_5_run("noise", "polyak", runs=2, steps=12, beta=0.5)
    bound = certify(record, problem)["Recursion of Theorem 2"].bound
    dist, optimal = square(record.iterates - problem.theta_star), optimal_losses(record, problem)
    for r in range(2):
        run_of = dist[r], record.gamma[r], record.loss[r], optimal[r]
        want = reference.distance_recursion(*run_of, 0.5, 0.75, 11)
        assert bound[r, 11] == pytest.approx(want, rel=1e-12)


def test_the_tightest_step_is_one_that_rounding_does_not_decide():
    arguments = {"k": np.arange(2), "measured": np.array([0.5, 8.6e-30])}
    check = Check(
        "x", "q", **arguments, bound=np.array([1.0, -8.6e-30]), tolerance=np.array([1e-12, 1e-27])
    )
    assert check.tightest == (0,)
    failing = replace(check, tolerance=np.zeros(2))
    assert failing.tightest == (1,)


def less_error(values):
    return values.mean(axis=0) - values.std(axis=0, ddof=1) / len(values) ** 0.5


def test_measured_is_the_mean_less_its_standard_error():
    problem, record = section_5_run("noise", "armijo", runs=5, steps=20)
    check = certify(record, problem)["Theorem 1"]
    want = less_error(square(record.iterates - problem.theta_star))
    np.testing.assert_allclose(check.measured, want, rtol=1e-12)
    row = check.row()
    assert row["slack"] == pytest.approx(row["bound"] - row["measured"])


def test_least_of_the_means_not_mean_of_the_least():
    problem, record = section_5_run("weak growth", "polyak", runs=9, steps=30)
    measured = certify(record, problem)["Theorem 3"].measured
    grad_sq = square(problem.full_gradient(record.iterates[:, :-1]))
    np.testing.assert_allclose(measured, np.minimum.accumulate(less_error(grad_sq)), rtol=1e-12)


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
    assert len(without.checks) == 2
    assert "needs the problem or its L" in without.skipped["Lemma 2, smallest step"]


REFUSED = [
    (lambda r, p: certify([r], p), TypeError, "record must be a Record, got list"),
    (lambda r, p: certify(None, p), TypeError, "record must be a Record, got NoneType"),
    (lambda r, p: certify(r, 42.0), TypeError, "problem must be a FiniteSum, got float"),
    (lambda r, p: certify(r, p, schedules={}), TypeError, "schedules must be a Schedules"),
    (lambda r, p: certify(r, p, L=2.0), ValueError, "give the problem or L, not both"),
    *((lambda r, p, L=L: certify(r, L=L), ValueError, "L must be > 0 and finite, got")
      for L in (0.0, -1.0, np.nan)),
    (lambda r, p: certify(heavystep.Recorder(heavystep.SHBPolyak([torch.zeros(2, requires_grad=True)]))),
     TypeError, r"got Recorder: call its record\(\)"),
    (lambda r, p: stack([r, replace(r, c=0.9)]), ValueError, "different methods: c differs"),
    (lambda r, p: stack([r, replace(r, iterates=None)]), ValueError, "differ in iterates"),
    (lambda r, p: stack([]), ValueError, "at least one record"),
    *((lambda r, p, changes=changes: replace(r, **changes), ValueError, message)
      for changes, message in (
        ({"scaling": "fast"}, "scaling must be one of 'theory', 'practical', 'plain', got 'fast'"),
        ({"eta": np.full(4, np.nan)}, "eta must be finite, got"),
        ({"f_star": np.full((2, 4), np.nan)}, "f_star must hold lower bounds or -inf, got NaN"),
        ({"gamma": np.zeros(4)}, r"gamma must have shape \(R, K\), got \(4,\)"),
        ({"beta": np.zeros(3)}, r"beta must have shape \(4,\), got \(3,\)"),
        ({"loss": np.zeros((2, 5))}, r"loss must have shape \(2, 4\), got \(2, 5\)"),
        ({"iterates": np.zeros((2, 4, 20))}, r"iterates must have shape \(2, 5, 20\)"),
        ({"rule": "armijo"}, r"Record needs omega in \(0, 1\) for the Armijo rule, got omega = None"),
        ({"omega": 0.5}, "the Polyak rule has no omega, got omega = 0.5"),
        ({"c": np.nan}, "Record needs c > 0 and finite, got c = nan"),
      )),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_refused_in_one_line(call, error, message):
    problem, record = section_5_run("noise", "polyak", runs=2, steps=4)
    with pytest.raises(error, match=message):
        call(record, problem)


def diminishing(_):
    return diminishing_run("polyak", SECTION_5["noise"], steps=5)


OTHER_LAWS = LAWS._replace(eta=LAWS.eta._replace(initial=0.4))
REASONS = [
    (diminishing, "Theorem 6", "eta is not the schedule"),
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
    certificate = certify(change(record), problem, schedules=OTHER_LAWS)
    with pytest.raises(KeyError, match=reason):
        certificate[result]
    assert f"not checked: {result}" in str(certificate)


def test_diminishing_theorems_need_the_schedules():
    assert "needs the schedules" in certify(diminishing(None), PAPER).skipped["Theorem 6"]


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


def test_a_rule_without_theorems_is_recorded_but_not_certified():
    problem, record = section_5_run("noise", "polyak", runs=2, steps=8)
    other = replace(record, rule="adam", scaling="none", c=-1.0, omega=7.0)
    with pytest.raises(ValueError, match=r"no theorem covers the rule 'adam', only .* 'armijo'"):
        certify(other, problem)
    with pytest.raises(ValueError, match="no theorem covers the rule 'adam'"):
        certify(replace(record, rule="adam"))  # its numbers alone would pass for Polyak's
    with pytest.raises(ValueError, match=r"loss must have shape \(2, 8\), got \(2, 9\)"):
        replace(other, loss=np.zeros((2, 9)))
    with pytest.raises(TypeError, match="rule must be the name of a rule, got None"):
        replace(record, rule=None)
