"""The table of rules that the theorems cover: another rule is one row, other names are refused."""

from dataclasses import replace

import numpy as np
import pytest

from heavystep import theory
from heavystep.certificates import certify
from heavystep.problems import paper_least_squares
from heavystep.theory.rules import RULES
from heavystep.validation import Interval
from tests.helpers.runs import draw_samples, recorded
from tests.helpers.theory_cases import LAWS

HALVED = RULES["polyak"]._replace(
    title="halved Polyak", unit_step=lambda c, omega: 1.0 / (4.0 * c), inequality="c >= rho / 8",
    admissible_c=lambda omega, rho: Interval(rho / 8.0, closed_low=True), best_c=0.5,
)  # fmt: skip
"""Polyak steps whose c counts half: that of c is Polyak's of 2c."""


@pytest.fixture
def third_rule(monkeypatch):
    monkeypatch.setitem(RULES, "halved", HALVED)


@pytest.fixture
def record():
    problem = paper_least_squares(noise=0.3)
    samples = draw_samples(problem, runs=2, steps=8)
    return recorded(problem, "polyak", samples, beta=0.5, c=1.5, gamma_max=1.0)


STEPS = {"L": 2.0, "beta": 0.5}


@pytest.mark.usefixtures("third_rule")
def test_a_third_rule_is_one_row():
    twins = (("halved", 0.75), ("polyak", 1.5))
    bounds = [theory.step_bounds(rule, **STEPS, c=c, gamma_max=1.0) for rule, c in twins]
    assert bounds[0] == bounds[1]
    limits = [theory.nonconvex_step_limit(rule, **STEPS, rho=1.25, c=c) for rule, c in twins]
    assert limits[0] == limits[1]
    laws = [theory.diminishing_step_bounds(r, L=2.0, schedules=LAWS, c=c, k=3) for r, c in twins]
    assert laws[0] == laws[1]
    with pytest.raises(ValueError, match=r"Theorem 3 needs c >= rho / 8, got c = 0.75, rho = 20.0"):
        theory.nonconvex_step_limit("halved", **STEPS, rho=20.0, c=0.75)
    advice = theory.advice("halved", **STEPS, rho=20.0)
    assert [line.best_c for line in advice] == [0.5, 0.5, None, None]
    assert advice[2].at_c == advice[2].c.low == 2.5


@pytest.mark.usefixtures("third_rule")
def test_runs_of_a_third_rule_are_certified(record):
    certificate = certify(replace(record, rule="halved", c=0.75), paper_least_squares(noise=0.3))
    assert certificate.holds, str(certificate)
    assert {"Lemma 1", "Lemma 2", "Recursion of Theorem 2"} <= {c.result for c in certificate}


def test_a_rule_without_theorems_is_recorded_but_not_certified(record):
    other = replace(record, rule="adam", scaling="none", c=-1.0, omega=7.0)
    with pytest.raises(ValueError, match=r"no theorem covers the rule 'adam', only .* 'armijo'"):
        certify(other, paper_least_squares(noise=0.3))
    with pytest.raises(ValueError, match="no theorem covers the rule 'adam'"):
        certify(replace(record, rule="adam"))  # its numbers alone would pass for Polyak's
    with pytest.raises(ValueError, match=r"loss must have shape \(2, 8\), got \(2, 9\)"):
        replace(other, loss=np.zeros((2, 9)))
    with pytest.raises(TypeError, match="rule must be the name of a rule, got None"):
        replace(record, rule=None)
