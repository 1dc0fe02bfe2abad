"""Assumption 5 decided exactly, the condition on c with its supremum, S_k and the proof's K."""

from math import inf

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heavystep import theory
from heavystep.schedules import PowerLaw, Schedules, diminishing_conditions
from heavystep.theory.diminishing import (
    TOLERANCE,
    DiminishingSteps,
    c_condition,
    c_limit,
)
from tests import reference
from tests.helpers.examples import examples
from tests.helpers.theory_cases import LAWS, log_uniform, schedules


def test_assumption_on_every_grid_of_tenths():
    """Decided as rational arithmetic decides it, boundaries included."""
    tenths = range(-3, 16)
    for eta in tenths:
        for cap in tenths:
            for beta in (9, 10, 11):
                laws = [PowerLaw(0.5, p / 10) for p in (eta, beta, cap)]
                want = beta > 10 and cap > 0 and 0 <= eta + cap <= 10 and 2 * eta + cap > 10
                holds = all(c.holds for c in diminishing_conditions(*laws))
                assert holds == want, (eta, beta, cap)


BAD_LAWS = [
    (LAWS._replace(eta=PowerLaw(0.0, 0.4)), r"eta0 > 0 and finite, got eta0 = 0.0"),
    (LAWS._replace(gamma_max=PowerLaw(-1.0, 0.3)), r"gamma_max0 > 0 and finite"),
    (LAWS._replace(beta=PowerLaw(1.0, 1.1)), r"beta0 in \[0, 1\), got beta0 = 1.0"),
    (LAWS._replace(eta=PowerLaw(0.5, float("nan"))), r"eta_power finite, got eta_power = nan"),
    (LAWS._replace(eta=PowerLaw(0.5, 0.4, 0.0)), r"eta_horizon > 0 and finite"),
    (LAWS._replace(eta=PowerLaw(0.5, 0.4, 10.0)), r"one horizon for all schedules, got \[10.0, 1"),
    (Schedules.power_laws(0.5, 0.7, 0.9, 1.1, 0.02, 0.7), r"breaks item \(iii\).*<= 1, got"),
    (LAWS._replace(gamma_max=PowerLaw(0.02, 0.0)), r"item \(ii\) .* gamma_max_power > 0, got 0"),
]


@pytest.mark.parametrize(("laws", "message"), BAD_LAWS)
def test_bad_schedules(laws, message):
    with pytest.raises(ValueError, match=message):
        theory.convex_diminishing("polyak", L=1.0, schedules=laws, c=1.0)


RULES = {
    "polyak": (st.floats(0.05, 2.0), st.none()),
    "armijo": (st.floats(0.05, 0.95), st.floats(0.2, 0.95)),
}
"""c and omega."""


@st.composite
def diminishing(draw):
    rule = draw(st.sampled_from(list(RULES)))
    c, omega = (draw(values) for values in RULES[rule])
    laws = draw(schedules(horizon=draw(log_uniform(1.0, 300.0))))
    return DiminishingSteps(rule, draw(log_uniform(1e-1, 1e2)), laws, c, omega)


LARGEST_AT_1 = DiminishingSteps(
    "polyak", 1.0, Schedules.power_laws(0.5, 0.35, 0.9, 3.0, 0.1, 0.1, horizon=1.0), 0.5, None
)
"""The condition on c asks for 0.351 at k = 0 and for 0.388 at k = 1."""
FROM_THE_BEGINNING = DiminishingSteps(
    "polyak", 1.0, Schedules.power_laws(0.2, 0.6, 0.3, 1.1, 0.02, 0.1), 0.5, None
)
"""The condition on c holds for all k."""


@examples(200)
@given(steps=diminishing(), K=st.integers(-1, 50))
@example(steps=LARGEST_AT_1, K=-1)
def test_supremum_against_a_scan(steps, K):
    scan = [
        reference.theorem_6_condition(steps.rule, steps.L, steps.schedules, steps.c, steps.omega, k)
        for k in range(K + 1, K + 2000)
    ]
    assert c_condition(steps, K + 1) == pytest.approx(scan[0], rel=1e-12)
    limit = c_limit(steps, K)
    assert limit >= max(scan) * (1.0 - 1e-12)
    # Beyond the scan the ratio is at most eta over a denominator that only grows to 1.
    tail = float(steps.schedules.eta(K + 2000))
    if max(scan) < inf and max(scan) > tail:
        assert limit <= max(max(scan), 2.0 * tail) * (1.0 + 2.0 * TOLERANCE)


@examples(200)
@given(steps=diminishing())
def test_smallest_index(steps):
    K = theory.convex_diminishing(
        steps.rule, L=steps.L, schedules=steps.schedules, c=steps.c, omega=steps.omega
    ).K
    assert c_limit(steps, K) <= steps.c
    if K >= 0:
        # K itself violates the condition, to the tolerance of the supremum.
        assert c_condition(steps, K) > steps.c * (1.0 - 2.0 * TOLERANCE)


def test_condition_needs_a_positive_denominator():
    """Read literally a negative ratio passes, and the step that uses it fails."""
    eta, beta, ratio, c = 0.5, 0.9, 5.0, 0.75
    denominator = 1 + beta - beta / (1 + beta) * ratio
    assert eta / denominator < 0 < c
    assert not (1 + beta - eta / c >= ratio * beta / (1 + beta))
    laws = Schedules.power_laws(eta, 0.4, beta, 1.1, ratio / (2 * c), 0.3)
    assert c_condition(DiminishingSteps("polyak", 1.0, laws, c, None), 0) == inf


@examples(200)
@given(steps=diminishing(), k=st.integers(0, 1000))
def test_condition_is_what_the_proof_needs(steps, k):
    """c >= the ratio exactly where eq. (dec_convex_coefficient) holds."""
    eta, beta, cap = (law(k) for law in steps.schedules)
    least = steps.gamma_min(k)
    margin = least * (1 + beta - eta / steps.c) - cap * beta / (1 + beta)
    if abs(margin) > 1e-9 * (least + cap) * (1 + eta / steps.c):
        assert (margin > 0) == (c_condition(steps, k) <= steps.c)


def test_section_5_constants():
    """The paper's schedules at its c and omega: all k for Polyak, large k only for Armijo."""
    polyak = theory.convex_diminishing("polyak", L=41.87, schedules=LAWS, c=0.75)
    armijo = theory.convex_diminishing("armijo", L=41.87, schedules=LAWS, c=0.75, omega=0.5)
    assert polyak.K == -1
    assert armijo.K > 1000
    k = np.array([1, 2, 1000])
    m = np.arange(1, 1001)
    S = np.cumsum(0.5 * (1 + m / 1e4) ** -0.4 * 0.02 * (1 + m / 1e4) ** -0.3)[k - 1]
    np.testing.assert_allclose(polyak.S(k), S, rtol=1e-12)
    np.testing.assert_allclose(polyak.rate(k), 1 / S, rtol=1e-12)


@examples(200)
@given(steps=diminishing(), rho=st.floats(0.5, 5.0), k=st.integers(0, 10**6))
def test_lyapunov_coefficients(steps, rho, k):
    promise = theory.nonconvex_diminishing(
        steps.rule, L=steps.L, rho=rho, delta=1.0, schedules=steps.schedules, c=steps.c,
        omega=steps.omega,
    )  # fmt: skip
    C, D, E = promise.coefficients(k)
    eta, beta, cap = (law(k) for law in steps.schedules)
    if 1 + beta * (1 - beta - eta * cap) > 0:
        want = reference.theorem_7_coefficients(steps.L, rho, eta, beta, cap, steps.gamma_min(k))
        np.testing.assert_allclose((C, D, E), want, rtol=1e-9, atol=1e-9 * eta * cap)
        # Lemma for C: (1 + beta) C = L beta / 2 + (L / 2 + C)(beta^2 + beta eta gamma_max).
        L = steps.L
        left, right = (1 + beta) * C, L * beta / 2 + (L / 2 + C) * (beta**2 + beta * eta * cap)
        np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-300)
    else:
        assert np.isposinf(C)
        assert np.isneginf(D)
    later = np.array([k, k + 1, 2 * k + 3])
    C, D, _ = promise.coefficients(later)
    assert (C[:-1] >= C[1:] * (1 - 1e-12)).all()
    eta, _, cap = (law(later) for law in steps.schedules)
    part = D / (eta * cap)
    known = part[np.isfinite(part)]
    assert np.isneginf(part[: len(part) - len(known)]).all()  # and these come first
    assert (np.diff(known) >= -1e-9 * (1 + abs(known[1:]))).all()
    K = promise.K
    assert promise.coefficients(K + 1).D > 0
    if K >= 0:
        assert promise.coefficients(K).D <= 0


def test_lyapunov_coefficient_can_be_negative_as_printed():
    """The counterexample of docs/theory.md: no Lyapunov coefficient where its denominator is."""
    C, _, _ = reference.theorem_7_coefficients(1.0, 1.0, 1.0, 0.9, 3.0, 3.0)
    np.testing.assert_allclose(C, -1.37, atol=0.01)


def test_bounds_of_the_proofs_refuse_and_overflow_clearly():
    armijo = theory.convex_diminishing("armijo", L=41.87, schedules=LAWS, c=0.75, omega=0.5)
    with pytest.raises(
        ValueError, match=r"Theorem 6 needs its condition on c from k = 0 .* K = \d+"
    ):
        armijo.bound(10, dist0_sq=1.0, gap0=1.0)
    rough = theory.nonconvex_diminishing("polyak", L=9.0, rho=2.0, delta=1.0, schedules=LAWS, c=1.0)
    with pytest.raises(ValueError, match=r"Theorem 7 needs D_k > 0 from k = 0 .* K = \d+"):
        rough.bound(10, gap0=1.0)
    polyak = theory.convex_diminishing("polyak", L=41.87, schedules=LAWS, c=0.75)
    bounds = polyak.bound(np.array([1, 100, 10_000]), dist0_sq=1.0, gap0=1.0)
    assert np.isfinite(bounds[:2]).all()
    assert bounds[2] == inf
    assert polyak.bound(10_000, dist0_sq=0.0, gap0=0.0) == 0.0


@examples(100)
@given(
    start=st.floats(0.0, 10.0),
    alpha=st.lists(st.floats(0.0, 2.0), min_size=6, max_size=6),
    noise=st.lists(st.floats(0.0, 2.0), min_size=6, max_size=6),
    shares=st.lists(st.floats(0.0, 1.0), min_size=6, max_size=6),
)
def test_almost_supermartingale_is_attained(start, alpha, noise, shares):
    """Run with equality: what is not spent on U stays in V."""
    V, spent = start, 0.0
    path = theory.almost_supermartingale(start, np.array(alpha), np.array(noise))
    for j in range(6):
        right = (1 + alpha[j]) * V + noise[j]
        U = shares[j] * right
        V = right - U
        spent += U / path.growth[j]
        assert V / path.growth[j] + spent == pytest.approx(path.budget[j], abs=1e-9)


@examples(200)
@given(steps=diminishing(), k=st.integers(1, 40), numbers=st.tuples(*[st.floats(0.0, 9.0)] * 4))
@example(steps=FROM_THE_BEGINNING, k=5, numbers=(2.0, 1.0, 3.0, 1.0))
def test_bounds_of_the_proofs_against_their_recursions(steps, k, numbers):
    sigma2, dist0_sq, gap0, delta = numbers
    rule, L, laws, c, omega = steps.rule, steps.L, steps.schedules, steps.c, steps.omega
    convex = theory.convex_diminishing(rule, L=L, schedules=laws, c=c, omega=omega, sigma2=sigma2)
    if convex.K == -1:
        want = reference.theorem_6_bound(rule, L, laws, c, omega, sigma2, dist0_sq, gap0, k)
        got = convex.bound(k, dist0_sq=dist0_sq, gap0=gap0)
        assert got == pytest.approx(want, rel=1e-9)
    nonconvex = theory.nonconvex_diminishing(
        rule, L=L, rho=1.5, delta=delta, schedules=laws, c=c, omega=omega
    )
    if nonconvex.K == -1:
        want = reference.theorem_7_bound(rule, L, 1.5, delta, laws, c, omega, gap0, k)
        assert nonconvex.bound(k, gap0=gap0) == pytest.approx(want, rel=1e-7)
