"""Every formula against the paper's, written out; ranges, monotonicity, reductions."""

import inspect
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from heavystep import theory
from heavystep.schedules import Schedules
from heavystep.theory.advice import advice
from heavystep.theory.registry import RESULTS
from tests import reference
from tests.helpers.examples import examples
from tests.helpers.theory_cases import (
    BROKEN,
    GOOD,
    OUT_OF_RANGE,
    REDUCTIONS,
    call,
    log_uniform,
    parameters,
)


def test_every_reduction_is_computed():
    assert [text for result in RESULTS for text in result.reductions] == list(REDUCTIONS)


@pytest.mark.parametrize("text", REDUCTIONS)
@examples(60)
@given(p=parameters())
def test_reduction(text, p):
    got, known = REDUCTIONS[text](p)
    np.testing.assert_allclose(got, known, rtol=1e-9, atol=1e-300)


@examples(300)
@given(p=parameters(), k=st.integers(1, 10**9))
def test_constants_are_the_papers(p, k):
    rule, omega, beta, c, cap = (p[n] for n in ("rule", "omega", "beta", "c", "gamma_max"))
    least = reference.gamma_min(rule, p["L"], beta, c, cap, omega)
    assert call(theory.step_bounds, p) == pytest.approx((least, cap), rel=1e-12)
    strong = call(theory.strongly_convex, p)
    rate, residual = reference.theorem_1(rule, p["L"], p["mu"], beta, c, cap, omega, p["sigma2"])
    assert (strong.rate, strong.residual) == pytest.approx((rate, residual), rel=1e-9)
    want = reference.theorem_2(rule, p["L"], beta, c, cap, omega, p["sigma2"], p["dist0_sq"], k)
    assert call(theory.convex, p).bound(k) == pytest.approx(want, rel=1e-9)
    limit = reference.theorem_3_limit(rule, p["L"], p["rho"], beta, c, omega)
    assert call(theory.nonconvex_step_limit, p) == pytest.approx(limit, rel=1e-9)
    want = reference.theorem_3(
        rule, p["L"], p["rho"], p["delta"], beta, c, cap, omega, p["gap0"], k
    )
    promise = call(theory.nonconvex, p)
    # s1 is a difference: its relative rounding grows towards the limit.
    assert promise.bound(k) == pytest.approx(want, rel=1e-9 * cap / promise.s1)


@examples(200)
@given(p=parameters(), start=st.floats(0.0, 1e3), second=st.floats(0.0, 1.0))
def test_initial_constant_bounds_the_worst_recursion(p, start, second):
    """e_{k+1} = (1-x) e_k - x beta e_{k-1} is the worst that the proof leaves open."""
    promise = call(theory.strongly_convex, p, sigma2=0.0, dist0_sq=start)
    x = p["mu"] * promise.gamma_min
    e = [start, second * (1.0 - x) * start]
    known = call(theory.strongly_convex, p, sigma2=0.0, dist0_sq=start, dist1_sq=e[1])
    assert known.B <= promise.B * (1.0 + 1e-12)
    for _ in range(60):
        e.append((1.0 - x) * e[-1] - x * p["beta"] * e[-2])
    k = np.arange(len(e))
    assert (np.array(e) <= known.bound(k) * (1.0 + 1e-9) + 1e-300).all()


@examples(200)
@given(p=parameters())
def test_rate_is_real_and_contracts(p):
    promise = call(theory.strongly_convex, p)
    x = p["mu"] * promise.gamma_min
    assert x <= (1.0 - p["beta"] ** 0.5) ** 2 / 2.0 * (1.0 + 1e-12)
    assert x < (np.sqrt(1.0 + p["beta"]) - np.sqrt(p["beta"])) ** 2
    assert 0.0 <= promise.other_root <= promise.rate <= 1.0
    assert promise.contraction > 0.0
    r = promise.rate
    assert r**2 - (1.0 - x) * r + x * p["beta"] == pytest.approx(0.0, abs=1e-12)


GROWS = [
    ("strongly_convex", lambda p: p.rate),
    ("strongly_convex", lambda p: p.residual),
    ("convex", lambda p: p.A),
    ("convex", lambda p: p.M),
    ("nonconvex", lambda p: p.bound(10)),
    ("convex_almost_sure", lambda p: p.expected_sum),
    ("nonconvex_almost_sure", lambda p: p.expected_sum),
]


@pytest.mark.parametrize(("name", "value"), GROWS)
@examples(100)
@given(p=parameters(), factor=st.floats(1.0, 3.0))
def test_bounds_grow_with_smoothness(name, value, p, factor):
    # A smaller cap keeps Theorem 3's condition at the larger L.
    p["gamma_max"] /= factor
    p["mu"] = min(p["mu"], p["L"])
    function = getattr(theory, name)
    larger = value(call(function, p, L=p["L"] * factor))
    assert larger >= value(call(function, p)) * (1.0 - 1e-9)


@pytest.mark.parametrize(("name", "value"), GROWS)
@examples(100)
@given(p=parameters(), more=st.floats(0.0, 1.0))
def test_bounds_grow_with_momentum_where_the_cap_does_not_bind(name, value, p, more):
    beta = p["beta"] + more * (0.99 - p["beta"])
    # Theorem 3 limits the cap by the larger momentum; a cap that binds hides gamma_min.
    limit = call(theory.nonconvex_step_limit, p, beta=beta)
    p["gamma_max"] = 0.999 * limit if name.startswith("nonconvex") else 1e6 / p["L"]
    function = getattr(theory, name)
    least = [call(theory.step_bounds, p, beta=b).gamma_min for b in (p["beta"], beta)]
    if max(least) < p["gamma_max"]:
        more_momentum = value(call(function, p, beta=beta))
        assert more_momentum >= value(call(function, p)) * (1.0 - 1e-9)


@examples(100)
@given(p=parameters(), k=st.integers(1, 10**6))
def test_bounds_fall_with_k(p, k):
    steps = np.array([k, k + 1, 2 * k + 1, 10 * k])
    for function in (theory.strongly_convex, theory.convex, theory.nonconvex):
        assert (np.diff(call(function, p).bound(steps)) <= 0.0).all()


@examples(100)
@given(p=parameters(), more=st.floats(0.0, 1.0))
def test_step_limit_falls_with_momentum_smoothness_and_growth(p, more):
    limit = call(theory.nonconvex_step_limit, p)
    beta = p["beta"] + more * (0.99 - p["beta"])
    assert call(theory.nonconvex_step_limit, p, beta=beta) <= limit * (1.0 + 1e-12)
    assert call(theory.nonconvex_step_limit, p, L=p["L"] * (1.0 + more)) <= limit * (1.0 + 1e-12)


@examples(200)
@given(p=parameters(), beyond=log_uniform(1e-6, 1.0))
def test_step_limit_is_where_s1_vanishes(p, beyond):
    limit = call(theory.nonconvex_step_limit, p)
    s1 = call(theory.nonconvex, p, gamma_max=limit * (1.0 - 1e-9)).s1
    assert 0.0 < s1 < 1e-6 * limit
    with pytest.raises(ValueError, match="gamma_max < limit"):
        call(theory.nonconvex, p, gamma_max=limit * (1.0 + beyond))


def test_bounds_take_numbers_and_arrays():
    for name, arguments in GOOD.items():
        promise = getattr(theory, name)(**arguments)
        if not hasattr(promise, "bound") or getattr(promise, "K", -1) != -1:
            continue  # a bound from some K on only has no constants
        asked = inspect.signature(promise.bound).parameters.keys() - {"k"}
        extra = dict.fromkeys(asked, 0.1)
        array = promise.bound(np.array([[1, 10], [100, 1000]]), **extra)
        assert array.dtype == np.float64
        assert array.shape == (2, 2)
        assert type(promise.bound(10, **extra)) is float
        assert promise.bound(10, **extra) == array[0, 1] == promise.bound(1e1, **extra)


@pytest.mark.parametrize("name", GOOD)
def test_results_are_finite_and_never_nan(name):
    promise = getattr(theory, name)(**GOOD[name])
    if is_dataclass(promise):
        numbers = [getattr(promise, f.name) for f in fields(promise)]
        assert all(np.isfinite(x) for x in numbers if isinstance(x, float))


RANGES = [
    (name, argument, value)
    for name, arguments in GOOD.items()
    for argument in arguments
    for value in OUT_OF_RANGE.get(argument, [])
    if "schedules" not in arguments or argument != "c" or value != np.inf
]


@pytest.mark.parametrize(("name", "argument", "value"), RANGES)
def test_out_of_range(name, argument, value):
    with pytest.raises(ValueError, match=rf"(Lemma|Theorem) \d needs {argument} .*, got"):
        getattr(theory, name)(**{**GOOD[name], argument: value})


@pytest.mark.parametrize(("name", "changes", "message"), BROKEN)
def test_broken_condition(name, changes, message):
    with pytest.raises(ValueError, match=message):
        getattr(theory, name)(**{**GOOD[name], **changes})


@pytest.mark.parametrize("value", ["2", None, True, [1.0, 2.0], 1j])
def test_constants_must_be_numbers(value):
    with pytest.raises(TypeError, match=r"Theorem 2 needs L > 0 and finite, a real number, got"):
        theory.convex(**{**GOOD["convex"], "L": value})


@pytest.mark.parametrize("k", [0, -1, 1.5, np.nan, np.inf, [1, 2, 0]])
def test_step_counts_must_be_whole(k):
    with pytest.raises(ValueError, match=r"Theorem 2 needs whole numbers k >= 1, got k ="):
        theory.convex(**GOOD["convex"]).bound(k)


@pytest.mark.parametrize("k", ["3", True, None, 1j])
def test_step_counts_must_be_numbers(k):
    with pytest.raises(TypeError, match=r"Theorem 2 needs k to be a whole number"):
        theory.convex(**GOOD["convex"]).bound(k)


FLOATS = [np.float32, np.float64, lambda x: np.array(x), lambda x: torch.tensor(x)]


@pytest.mark.parametrize("kind", FLOATS)
def test_numbers_of_other_libraries_count_as_float64(kind):
    arguments = {
        "L": 42.0,
        "beta": 0.5,
        "c": 0.75,
        "gamma_max": 1.0,
        "dist0_sq": 20.0,
        "sigma2": 2.0,
    }
    plain = theory.convex("polyak", **arguments)
    other = theory.convex("polyak", **{name: kind(value) for name, value in arguments.items()})
    assert other == plain
    assert type(other.A) is float
    assert type(other.bound(10)) is float


EXTREME = [
    ("strongly_convex", {"L": 1e200, "mu": 1e-200}, "1 - r > 0 in float64"),
    ("nonconvex_step_limit", {"rho": 1e200, "c": 1e200}, "outside the range of float64"),
    ("nonconvex_step_limit", {"L": 1e-200, "rho": 1e-200}, "rho L > 0 in float64"),
    ("nonconvex_step_limit", {"rho": 1e-320}, "float64"),
    ("convex", {"gamma_max": 1e300, "sigma2": 1e20}, "outside the range of float64"),
    ("convex_diminishing", {"schedules": None}, "Schedules"),
    ("convex_diminishing", {"K": -5}, "Theorem 6 needs whole numbers"),
    pytest.param(
        "convex_diminishing",
        {"c": 0.1, "schedules": Schedules.power_laws(5.0, 0.001, 0.9, 1.001, 0.02, 0.9985)},
        r"holds from no K below 10\^300",
        marks=pytest.mark.slow,  # all of them are looked at
    ),
    (
        "nonconvex_diminishing",
        {"schedules": Schedules.power_laws(0.5, 0.4, 0.0, -500.0, 0.02, 0.3)},
        "needs beta_power >= 0",
    ),
]


@pytest.mark.parametrize(("name", "changes", "message"), EXTREME)
def test_extreme_constants_are_refused_in_one_line(name, changes, message):
    with pytest.raises((ValueError, TypeError), match=message):
        getattr(theory, name)(**{**GOOD[name], **changes})


def test_advice_ignores_omega_for_polyak():
    with_omega, without = (
        advice("polyak", L=2.0, beta=0.25, rho=6.0, omega=omega) for omega in (0.5, None)
    )
    assert with_omega == without
    assert with_omega[2].c.low == 1.5


ARRAY_INPUT = [
    (lambda: theory.basic_inequality(beta=0.5, c=1.0, gap=[1.0, -1.0]), ValueError, "gap >= 0"),
    (lambda: theory.basic_inequality(beta=0.5, c=1.0, gap="x"), TypeError, "real numbers"),
    (lambda: theory.almost_supermartingale(-1.0, [0.0], [0.0]), ValueError, "Lemma 7 needs V0"),
    (lambda: theory.almost_supermartingale(1.0, [np.nan], [0.0]), ValueError, "Lemma 7 needs alpha"),
    (lambda: theory.nonconvex_tail_bound(np.nan, 1.0, head=1.0), ValueError, "Theorem 9 needs"),
    (
        lambda: theory.convex_tail_bound(1.0, 1.0, head=1.0, total=0.0, diameter=1.0, L=1.0),
        ValueError,
        "Theorem 8 needs W_k > 0",
    ),
    (
        lambda: theory.decoupling_inequality(
            np.array([np.nan]), np.ones((1, 1)), np.ones((1, 1)), L=1.0, beta=0.0
        ),
        ValueError,
        "Lemma 4 needs steps finite",
    ),
    (
        lambda: theory.decoupling_identity(
            np.ones((1, 1)), np.ones(1), np.ones((1, 1)), beta=0.0, point=[np.inf]
        ),
        ValueError,
        "Lemma 3 needs point finite",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call_it", "error", "message"), ARRAY_INPUT)
def test_arrays_are_checked(call_it, error, message):
    with pytest.raises(error, match=message):
        call_it()


def test_overflow_is_told():
    with pytest.raises(ValueError, match=r"A = inf is outside the range of float64"):
        theory.convex("polyak", L=1e300, beta=0.9, c=0.75, gamma_max=1.0, dist0_sq=1e30)
    with pytest.raises(ValueError, match=r"bound needs dist0_sq"):
        theory.strongly_convex("polyak", L=1.0, mu=0.5, beta=0.5, c=1.0, gamma_max=1.0).bound(3)


@pytest.mark.parametrize("probability", [0.0, 1.0, -0.5, np.nan])
def test_probability_range(probability):
    sums = theory.convex_almost_sure(**GOOD["convex_almost_sure"])
    with pytest.raises(ValueError, match=r"Theorem 4 needs probability in \(0, 1\)"):
        sums.bound(10, probability)


@examples(200)
@given(p=parameters())
def test_advice_admits_what_the_theorems_accept(p):
    lines = call(advice, p)
    assert [line.theorem for line in lines] == [
        "Theorem 1",
        "Theorems 2 and 4",
        "Theorems 3 and 5",
        "Theorems 6-9",
    ]
    functions = (theory.strongly_convex, theory.convex, theory.nonconvex)
    for line, function in zip(lines, functions, strict=False):
        assert line.admits(c=p["c"], gamma_max=p["gamma_max"])
        call(function, p)
        below = line.c.low * (1.0 - 1e-6)
        if below > 0.0:
            assert below not in line.c
            with pytest.raises(ValueError, match=r"needs c"):
                call(function, p, c=below)
    call(theory.nonconvex, p, gamma_max=lines[2].gamma_max.high * (1.0 - 1e-6))
    typical = call(advice, p, c=None)[2]
    call(theory.nonconvex, p, c=typical.at_c, gamma_max=typical.gamma_max.high * (1.0 - 1e-6))
    with pytest.raises(ValueError, match="advised for c ="):
        lines[2].admits(c=0.5 * p["c"], gamma_max=1.0)


@pytest.mark.parametrize(("rule", "omega"), [("polyak", None), ("armijo", 0.5)])
def test_best_c_is_best(rule, omega):
    strong, plain, _ = advice(rule, L=3.0, beta=0.5, omega=omega)
    grid = np.linspace(0.501, 0.999 if omega else 3.0, 500)
    A = [
        theory.convex(rule, L=3.0, beta=0.5, c=c, gamma_max=1e9, omega=omega, dist0_sq=1.0).A
        for c in grid
    ]
    best = theory.convex(
        rule, L=3.0, beta=0.5, c=plain.best_c, gamma_max=1e9, omega=omega, dist0_sq=1.0
    ).A
    assert best <= min(A) * (1.0 + 1e-9)
    rates = [
        theory.strongly_convex(rule, L=3.0, mu=1.0, beta=0.5, c=c, gamma_max=1e9, omega=omega).rate
        for c in [strong.best_c, *grid]
    ]
    assert rates[0] == min(rates)


def test_side_by_side_is_the_theorems():
    rows = theory.side_by_side(
        "armijo", L=2.0, mu=0.3, rho=1.25, c=0.7, omega=0.5, betas=(0.0, 0.6)
    )
    for row in rows:
        method = {"L": 2.0, "beta": row.beta, "c": 0.7, "omega": 0.5}
        least = reference.gamma_min("armijo", 2.0, row.beta, 0.7, 1e9, 0.5)
        assert pytest.approx(1.0 / ((1.0 + row.beta) * (2.0 - 1.0 / 0.7) * least)) == row.A
        limit = theory.nonconvex_step_limit("armijo", rho=1.25, **method)
        assert row.gamma_max_limit == limit
        want = theory.strongly_convex("armijo", mu=0.3, gamma_max=1e3, **method).contraction
        assert row.contraction == pytest.approx(want, rel=1e-12)
    constants = np.array(
        [[1.0 / row.contraction, row.A, row.best] for row in theory.side_by_side(L=1.0, mu=0.1)]
    )
    assert (np.diff(constants, axis=0) > 0.0).all()  # momentum improves none of them


@pytest.mark.parametrize("c", [0.75, 1.0, 2.0])
@pytest.mark.parametrize("cap", [0.1, 1.0, 10.0])
def test_limit_of_momsps(c, cap):
    """The momentum at which its two sums balance, and the cap that belongs to that momentum."""
    beta, alpha = theory.momsps_limit(L=1.0, gamma_max=cap, c=c), min(1.0 / (2.0 * c), cap)
    if cap > alpha:
        assert alpha * (2.0 - (1.0 - beta) / c) == pytest.approx(2.0 * cap * beta)
        (row,) = theory.side_by_side(L=1.0, mu=0.1, c=c, betas=(beta,))
        assert row.momsps_gamma_max == pytest.approx(cap)
    else:
        assert beta == 1.0
    with pytest.raises(ValueError, match=r"MomSPS needs c > 0\.5"):
        theory.momsps_limit(L=1.0, gamma_max=1.0, c=0.5)
