"""Certificates fail on every kind of dishonest run, and records of another problem are refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from heavystep.arrays import square
from heavystep.certificates import certify
from heavystep.problems import paper_least_squares
from heavystep.schedules import Schedules
from tests.helpers.certified_runs import SECTION_5, diminishing_run, section_5_run, torch_runs
from tests.helpers.runs import draw_samples, recorded
from tests.helpers.theory_cases import CONVEX, LAWS, cosine, make_problem


def faster(record):
    return replace(record, gamma=1.5 * record.gamma)


def slower(record):
    return replace(record, gamma=0.25 * record.gamma)


def rerun(record, problem, move):
    """Iterates of another method with the same steps, samples and true losses."""
    theta = record.iterates[:, 0]
    memory = np.zeros_like(theta)
    iterates, gradients = [theta], []
    for k in range(record.steps):
        gradients.append(problem.gradients(theta, record.samples[:, k]))
        theta, memory = move(theta, memory, record.gamma[:, k, None] * gradients[-1], k)
        iterates.append(theta)
    iterates, gradients = np.stack(iterates, axis=1), np.stack(gradients, axis=1)
    losses = problem.losses(iterates[:, :-1], record.samples)
    return replace(
        record, iterates=iterates, gradients=gradients, loss=losses, grad_sqnorm=square(gradients)
    )


def half_momentum(theta, memory, pull, k):
    memory = 0.5 * 0.5 * memory - pull
    return theta + memory, memory


def slightly_other_momentum(theta, memory, pull, k):
    memory = 0.5 * (1.0 + 1e-8) * memory - pull
    return theta + memory, memory


def uphill(theta, memory, pull, k):
    memory = 0.5 * memory + pull
    return theta + memory, memory


def jumping(theta, memory, pull, k):
    memory = 0.5 * memory - pull
    return theta + memory + (k == 3), memory


LIES = [
    (half_momentum, {"Heavy ball", "Lemma 3"}),
    (slightly_other_momentum, {"Heavy ball"}),
    (uphill, {"Heavy ball", "Lemma 3", "Lemma 4", "Recursion of Theorem 2"}),
    (jumping, {"Heavy ball", "Lemma 3"}),
]


@pytest.mark.parametrize(("move", "results"), LIES)
def test_a_run_that_cheats_fails(move, results):
    problem, record = section_5_run("noise", "polyak", beta=0.5)
    certificate = certify(rerun(record, problem, move), problem)
    assert not certificate.holds
    assert results <= {check.result for check in certificate.failures}
    assert "NO" in str(certificate)


@pytest.mark.parametrize(("lie", "result"), [(faster, "Lemma 1"), (slower, "Lemma 2")])
def test_steps_that_the_rule_did_not_choose_fail(lie, result):
    problem, record = section_5_run("noise", "polyak", beta=0.5)
    certificate = certify(lie(record), problem)
    assert result in {check.result for check in certificate.failures}


@pytest.mark.parametrize(("lie", "result"), [(faster, "Lemma 6"), (slower, "Lemma 5")])
def test_diminishing_steps_that_the_rule_did_not_choose_fail(lie, result):
    problem = SECTION_5["noise"]
    certificate = certify(lie(diminishing_run("polyak", problem)), problem, schedules=LAWS)
    failed = {check.result for check in certificate.failures}
    assert {result, "Heavy ball"} <= failed


def test_a_diminishing_run_without_its_momentum_fails():
    """No constant beta: only the recursion itself tells."""
    problem = SECTION_5["noise"]
    record = diminishing_run("polyak", problem)
    without = replace(record, beta=np.zeros(record.steps))
    assert not certify(without, problem)["Heavy ball"].holds


MISFITS = [
    (lambda r, p: replace(r, loss=2.0 * r.loss), "loss is not the problem's in run 0 at step 0"),
    (lambda r, p: replace(r, samples=r.samples[::-1]), "loss is not the problem's"),
    (
        lambda r, p: replace(r, gradients=0.95 * r.gradients, grad_sqnorm=0.95**2 * r.grad_sqnorm),
        "gradient is not the problem's",
    ),
    (lambda r, p: replace(r, grad_sqnorm=1.01 * r.grad_sqnorm), "grad_sqnorm is not that of"),
    (lambda r, p: replace(r, samples=r.samples + p.n), "samples name no term .* has 512"),
    (lambda r, p: replace(r, iterates=r.iterates[..., :3], gradients=r.gradients[..., :3],
                          grad_sqnorm=square(r.gradients[..., :3])), "points of 3 numbers"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), MISFITS)
def test_a_record_of_another_problem_is_refused(change, message):
    problem, record = section_5_run("noise", "polyak", runs=2, steps=6)
    with pytest.raises(ValueError, match=message):
        certify(change(record, problem), problem)
    with pytest.raises(ValueError, match="loss is not the problem's"):
        certify(record, paper_least_squares(0.3, seed=5))


BOUNDS = [
    ("interpolation", ["Theorem 1", "Theorem 2"]),
    ("strong growth", ["Theorem 3", "Theorem 5"]),
]


@pytest.mark.parametrize(("name", "results"), BOUNDS)
def test_theorem_bounds_can_fail(name, results):
    """A run that moves away from the optimum breaks every bound that goes to zero."""
    problem, record = section_5_run(name, "polyak", beta=0.0)

    def away(theta, memory, pull, k):
        return theta + 1e4, memory

    certificate = certify(rerun(record, problem, away), problem)
    assert set(results) <= {check.result for check in certificate.failures}


def test_diminishing_bounds_can_fail():
    """Small momentum and a short horizon: the constants of the proofs are within reach."""
    problem = make_problem(CONVEX, 3)
    laws = Schedules.power_laws(0.5, 0.6, 0.05, 2.0, 0.2 / problem.L, 0.3, horizon=5.0)
    samples = draw_samples(problem, runs=6, steps=60)
    record = recorded(problem, "polyak", samples, **laws._asdict(), c=0.75, scaling="plain")
    assert certify(record, problem, schedules=laws)["Theorem 6"].holds

    def away(theta, memory, pull, k):
        return theta + 1e4, memory

    moved = certify(rerun(record, problem, away), problem, schedules=laws)
    assert {"Theorem 6", "Recursion of Theorem 6"} <= {c.result for c in moved.failures}
    bumpy = make_problem([cosine], 4)
    laws = laws._replace(gamma_max=laws.gamma_max._replace(initial=0.2 / bumpy.L))
    samples = draw_samples(bumpy, runs=6, steps=60)
    record = recorded(bumpy, "armijo", samples, **laws._asdict(), c=0.5, omega=0.5, scaling="plain")
    assert certify(record, bumpy, schedules=laws)["Theorem 7"].holds
    moved = certify(rerun(record, bumpy, away), bumpy, schedules=laws)
    assert "Theorem 7" in {c.result for c in moved.failures}


@pytest.mark.parametrize("lie", [faster, slower])
def test_float32_runs_can_fail(lie):
    record = torch_runs(paper_least_squares(0.3), 5, 50, dtype=torch.float32)
    assert certify(record, paper_least_squares(0.3)).holds
    assert not certify(lie(record), paper_least_squares(0.3)).holds
