"""Every momentum form, compiled and on arrays, equals its literal loop with every kind of rule."""

from dataclasses import replace

import numpy as np
import pytest

from heavystep import methods, momentum
from heavystep.problems import Cosine
from heavystep.rules import FIXED, POLYAK, Rule, Search
from heavystep.schedules import PowerLaw
from heavystep.simulation.batch import record_runs
from heavystep.simulation.configuration import configure
from heavystep.simulation.run import Run
from tests import reference

RNG = np.random.default_rng(4)
XI = RNG.normal(size=(5, 3))
PROBLEM = Cosine(RNG.uniform(0.5, 1.5, 10), np.concatenate([XI, -XI]), theta0=np.arange(3.0) - 1.5)
SAMPLES = RNG.integers(0, 10, size=(2, 60))
ETA, BETA = PowerLaw(0.3, 0.4, 20.0), PowerLaw(0.9, 0.2, 20.0)
FORMS = {form.name: form for form in vars(momentum).values() if isinstance(form, momentum.Form)}


def weigh(constants, memory):
    return reference.WEIGHT


def along(constants, memory, seen):
    return Search(abs(seen.slope) / (1.0 + seen.direction_sqnorm), True, False)


ALONG = Rule(
    "along", "", "a rule that looks at the direction", (), along, frozenset({"direction_sqnorm", "slope"})
)  # fmt: skip


class Literal:
    """The interface of the literal loops."""

    def grad(self, theta, i):
        return PROBLEM.gradients(theta, i)


def given_steps(k, theta, i, g, d):
    return ETA(k)


def polyak_steps(k, theta, i, g, d):
    gap = PROBLEM.losses(theta, i) - PROBLEM.f_star[i]
    return ETA(k) * reference.polyak_plain(gap, 0.0, g @ g, 0.7, 0.8, np.inf)


def steps_along(k, theta, i, g, d):
    return ETA(k) * abs(g @ d) / (1.0 + d @ d)


RULES = {
    "fixed": (FIXED, {}, given_steps),
    "polyak": (
        POLYAK,
        {"c": 0.7, "max_step": 0.8, "scaling": "plain", "steps_per_epoch": None},
        polyak_steps,
    ),
    "along": (ALONG, {}, steps_along),
}


@pytest.fixture
def method(rule, form):
    """The rule with the form, in the registry for as long as the test runs."""
    weighing = replace(RULES[rule][0], weigh=weigh)
    made = methods.register(methods.Method("Test", "", "", weighing, FORMS[form]))
    yield configure(made.name, lr=ETA, momentum=BETA, **RULES[rule][1])
    del methods.METHODS[made.name]


def literal(rule, form, samples):
    loop = reference.MOMENTUM_FORMS[form]
    return loop(Literal(), PROBLEM.theta0, samples, RULES[rule][2], BETA)


every_pair = pytest.mark.parametrize(
    ("rule", "form"), [(rule, form) for rule in RULES for form in FORMS]
)


def test_every_form_has_a_literal_loop():
    assert set(FORMS) == set(reference.MOMENTUM_FORMS)


@pytest.mark.slow
@every_pair
def test_compiled(rule, form, method):
    run = Run(PROBLEM, method, 0, np.array([60]))
    wanted = literal(rule, form, SAMPLES[0])
    for first in range(0, 60, 20):  # the buffer is carried from call to call
        assert run.advance(20, SAMPLES[0, first : first + 20, None]) == 20
        np.testing.assert_allclose(run.state.theta, wanted[first + 20], rtol=1e-12, atol=1e-12)


@every_pair
def test_on_arrays(rule, form, method):
    record = record_runs(PROBLEM, method, SAMPLES)
    for iterates, samples in zip(record.iterates, SAMPLES, strict=True):
        np.testing.assert_allclose(iterates, literal(rule, form, samples), rtol=1e-12, atol=1e-12)
