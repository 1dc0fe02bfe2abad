"""What a certificate measures and bounds, computed by hand."""

from dataclasses import replace

import numpy as np
import pytest

from heavystep.arrays import square
from heavystep.certificates import Check, certify
from tests import reference
from tests.helpers.certified_runs import SECTION_5, diminishing_run, section_5_run
from tests.helpers.theory_cases import LAWS


def test_recursions_are_fed_with_the_run():
    """The bound of the table, from the record by hand."""
    problem = SECTION_5["noise"]
    record = diminishing_run("polyak", problem, steps=12)
    bound = certify(record, problem, schedules=LAWS)["Recursion of Theorem 6"].bound
    dist = square(record.iterates - problem.theta_star)
    optimal = problem.losses(np.broadcast_to(problem.theta_star, (6, 12, 20)), record.samples)
    for k in range(12):
        moved = square(record.iterates[:, k] - record.iterates[:, max(k - 1, 0)])
        want = reference.diminishing_distance(
            dist[:, k], moved, record.loss[:, k], optimal[:, k], record.gamma[:, k],
            LAWS.eta(k), LAWS.beta(k), 0.75,
        )  # fmt: skip
        np.testing.assert_allclose(bound[:, k], want, rtol=1e-12)
    _, record = section_5_run("noise", "polyak", runs=2, steps=12, beta=0.5)
    bound = certify(record, problem)["Recursion of Theorem 2"].bound
    dist = square(record.iterates - problem.theta_star)
    optimal = problem.losses(np.broadcast_to(problem.theta_star, (2, 12, 20)), record.samples)
    for r in range(2):
        want = reference.distance_recursion(
            dist[r], record.gamma[r], record.loss[r], optimal[r], 0.5, 0.75, 11
        )
        assert bound[r, 11] == pytest.approx(want, rel=1e-12)


def test_the_tightest_step_is_one_that_rounding_does_not_decide():
    arguments = {"k": np.arange(2), "measured": np.array([0.5, 8.6e-30])}
    check = Check(
        "x", "q", **arguments, bound=np.array([1.0, -8.6e-30]), tolerance=np.array([1e-12, 1e-27])
    )
    assert check.tightest == (0,)
    failing = replace(check, tolerance=np.zeros(2))
    assert failing.tightest == (1,)


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
    problem, record = section_5_run("weak growth", "polyak", runs=9, steps=30)
    check = certify(record, problem)["Theorem 3"]
    grad_sq = square(problem.full_gradient(record.iterates[:, :-1]))
    mean = grad_sq.mean(axis=0) - grad_sq.std(axis=0, ddof=1) / 3.0
    np.testing.assert_allclose(check.measured, np.minimum.accumulate(mean), rtol=1e-12)
