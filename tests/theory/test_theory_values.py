"""Every formula against the paper's, written out; ranges, monotonicity, reductions."""

import inspect
import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from heavystep import theory
from heavystep.schedules import Schedules
from heavystep.theory.advice import advice
from tests import reference
from tests.helpers.examples import examples
from tests.helpers.places import ROOT
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
    told = json.loads((ROOT / "docs" / "readings.json").read_text()).values()
    assert [text for remarks in told for text in remarks.get("reductions", ())] == list(REDUCTIONS)


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
    want = reference.theorem_1(rule, p["L"], p["mu"], beta, c, cap, omega, p["sigma2"])
    assert (strong.rate, strong.residual) == pytest.approx(want, rel=1e-9)
    want = reference.theorem_2(rule, p["L"], beta, c, cap, omega, p["sigma2"], p["dist0_sq"], k)
    assert call(theory.convex, p).bound(k) == pytest.approx(want, rel=1e-9)
    limit = reference.theorem_3_limit(rule, p["L"], p["rho"], beta, c, omega)
    assert call(theory.nonconvex_step_limit, p) == pytest.approx(limit, rel=1e-9)
    constants = (rule, p["L"], p["rho"], p["delta"], beta, c, cap, omega, p["gap0"], k)
    promise = call(theory.nonconvex, p)
    # s1 is a difference: its relative rounding grows towards the limit.
    want = reference.theorem_3(*constants)
    assert promise.bound(k) == pytest.approx(want, rel=1e-9 * cap / promise.s1)


@examples(200)
@given(p=parameters(), start=st.floats(0.0, 1e3), second=st.floats(0.0, 1.0))
def test_theorem_1_bounds_the_worst_recursion_and_contracts(p, start, second):
    """e_{k+1} = (1-x) e_k - x beta e_{k-1} is the worst that the proof leaves open."""
    promise = call(theory.strongly_convex, p, sigma2=0.0, dist0_sq=start)
    x, r = p["mu"] * promise.gamma_min, promise.rate
    assert x <= (1.0 - p["beta"] ** 0.5) ** 2 / 2.0 * (1.0 + 1e-12)
    assert 0.0 <= promise.other_root <= r <= 1.0
    assert promise.contraction > 0.0
    assert r**2 - (1.0 - x) * r + x * p["beta"] == pytest.approx(0.0, abs=1e-12)
    e = [start, second * (1.0 - x) * start]
    known = call(theory.strongly_convex, p, sigma2=0.0, dist0_sq=start, dist1_sq=e[1])
    assert known.B <= promise.B * (1.0 + 1e-12)
    for _ in range(60):
        e.append((1.0 - x) * e[-1] - x * p["beta"] * e[-2])
    assert (np.array(e) <= known.bound(np.arange(len(e))) * (1.0 + 1e-9) + 1e-300).all()


@examples(200)
@given(p=parameters(), beyond=log_uniform(1e-6, 1.0))
def test_step_limit_is_where_s1_vanishes(p, beyond):
    limit = call(theory.nonconvex_step_limit, p)
    assert 0.0 < call(theory.nonconvex, p, gamma_max=limit * (1.0 - 1e-9)).s1 < 1e-6 * limit
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
        assert (array.dtype, array.shape) == (np.float64, (2, 2))
        assert type(promise.bound(10, **extra)) is float
        assert promise.bound(10, **extra) == array[0, 1] == promise.bound(1e1, **extra)


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


EXTREME = [
    ("strongly_convex", {"L": 1e200, "mu": 1e-200}, "1 - r > 0 in float64"),
    ("nonconvex_step_limit", {"rho": 1e200, "c": 1e200}, "outside the range of float64"),
    ("nonconvex_step_limit", {"L": 1e-200, "rho": 1e-200}, "rho L > 0 in float64"),
    ("nonconvex_step_limit", {"rho": 1e-320}, "float64"),
    ("convex", {"gamma_max": 1e300, "sigma2": 1e20}, "outside the range of float64"),
    ("convex", {"L": 1e300, "dist0_sq": 1e30}, "A = inf is outside the range of float64"),
    *(("convex", {"L": value}, "Theorem 2 needs L > 0 and finite, a real number, got")
      for value in ("2", None, True, [1.0, 2.0], 1j)),
    ("convex_diminishing", {"schedules": None}, "Schedules"),
    ("convex_diminishing", {"K": -5}, "Theorem 6 needs whole numbers"),
    pytest.param("convex_diminishing",
                 {"c": 0.1, "schedules": Schedules.power_laws(5.0, 0.001, 0.9, 1.001, 0.02, 0.9985)},
                 r"holds from no K below 10\^300", marks=pytest.mark.slow),  # looks at all of them
    ("nonconvex_diminishing",
     {"schedules": Schedules.power_laws(0.5, 0.4, 0.0, -500.0, 0.02, 0.3)}, "beta_power >= 0"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changes", "message"), BROKEN + EXTREME)
def test_broken_condition(name, changes, message):
    with pytest.raises((ValueError, TypeError), match=message):
        getattr(theory, name)(**{**GOOD[name], **changes})


def bound_at(k):
    return lambda: theory.convex(**GOOD["convex"]).bound(k)


def with_chance(probability):
    sums = theory.convex_almost_sure(**GOOD["convex_almost_sure"])
    return lambda: sums.bound(10, probability)


ONE, WHOLE = np.ones((1, 1)), r"Theorem 2 needs whole numbers k >= 1, got k ="
REFUSED = [
    *((bound_at(k), ValueError, WHOLE) for k in (0, -1, 1.5, np.nan, np.inf, [1, 2, 0])),
    *((bound_at(k), TypeError, "needs k to be a whole number") for k in ("3", True, None, 1j)),
    *((with_chance(p), ValueError, r"Theorem 4 needs probability in \(0, 1\)")
      for p in (0.0, 1.0, -0.5, np.nan)),
    (lambda: theory.strongly_convex("polyak", L=1.0, mu=0.5, beta=0.5, c=1.0, gamma_max=1.0).bound(3),
     ValueError, "bound needs dist0_sq"),
    (lambda: theory.basic_inequality(beta=0.5, c=1.0, gap=[1.0, -1.0]), ValueError, "gap >= 0"),
    (lambda: theory.basic_inequality(beta=0.5, c=1.0, gap="x"), TypeError, "real numbers"),
    (lambda: theory.almost_supermartingale(-1.0, [0.0], [0.0]), ValueError, "Lemma 7 needs V0"),
    (lambda: theory.nonconvex_tail_bound(np.nan, 1.0, head=1.0), ValueError, "Theorem 9 needs"),
    (lambda: theory.convex_tail_bound(1.0, 1.0, head=1.0, total=0.0, diameter=1.0, L=1.0),
     ValueError, "Theorem 8 needs W_k > 0"),
    (lambda: theory.decoupling_inequality(np.array([np.nan]), ONE, ONE, L=1.0, beta=0.0),
     ValueError, "Lemma 4 needs steps finite"),
    (lambda: theory.decoupling_identity(ONE, np.ones(1), ONE, beta=0.0, point=[np.inf]),
     ValueError, "Lemma 3 needs point finite"),
    *((lambda tau=tau: theory.averaged(tau=tau, beta=0.9), ValueError,
       rf"Theorem A needs tau in \(0, 2\), got tau = {tau}") for tau in (2.0, 5.0)),
    (lambda: theory.averaged(tau=1.0, beta=1.0), ValueError, r"A needs beta in \[0, 1\), got beta = 1.0"),
    (lambda: theory.averaged(tau=1.0, beta=0.9, power=-1.0), ValueError, "A needs power >= 0"),
    *((lambda given=given: theory.averaged_sampled(**{"G": 1.0, "dist0_sq": 1.0, **given}), ValueError,
       rf"Theorem S needs {next(iter(given))} ")
      for given in ({"G": 0.0}, {"tau": 2.5}, {"least_cap": 0.0})),
    (lambda: theory.last_iterate(L=1.0, eta=0.3, dist0_sq=1.0), ValueError, r"L needs eta <= 1 / \(4 L\)"),
    (lambda: theory.directional_step(L=1.0, c=0.1, omega=0.5, cap=1.0, least_slope=0.0, most_length=2.0),
     ValueError, r"Lemma D needs c_1 in \(0, 1\]"),
]  # fmt: skip


@pytest.mark.parametrize(("call_it", "error", "message"), REFUSED)
def test_refused_in_one_line(call_it, error, message):
    with pytest.raises(error, match=message):
        call_it()


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.array, torch.tensor])
def test_numbers_of_other_libraries_count_as_float64(kind):
    arguments = {"L": 42.0, "beta": 0.5, "c": 0.75, "gamma_max": 1.0, "dist0_sq": 20.0}
    other = theory.convex("polyak", **{name: kind(value) for name, value in arguments.items()})
    assert other == theory.convex("polyak", **arguments)
    assert type(other.A) is type(other.bound(10)) is float


@examples(200)
@given(p=parameters())
def test_advice_admits_what_the_theorems_accept(p):
    lines = call(advice, p)
    named = ["Theorem 1", "Theorems 2 and 4", "Theorems 3 and 5", "Theorems 6-9"]
    assert [line.theorem for line in lines] == named
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
    method = {"L": 3.0, "beta": 0.5, "omega": omega}
    strong, plain, _ = advice(rule, **method)
    grid = np.linspace(0.501, 0.999 if omega else 3.0, 500)
    A, best = (
        [theory.convex(rule, **method, c=c, gamma_max=1e9, dist0_sq=1.0).A for c in each]
        for each in (grid, [plain.best_c])
    )
    assert best[0] <= min(A) * (1.0 + 1e-9)
    rates = [
        theory.strongly_convex(rule, **method, mu=1.0, c=c, gamma_max=1e9).rate
        for c in [strong.best_c, *grid]
    ]
    assert rates[0] == min(rates)


def test_side_by_side_is_the_theorems():
    given = {"L": 2.0, "c": 0.7, "omega": 0.5}
    for row in theory.side_by_side("armijo", mu=0.3, rho=1.25, betas=(0.0, 0.6), **given):
        method = {**given, "beta": row.beta}
        least = reference.gamma_min("armijo", 2.0, row.beta, 0.7, 1e9, 0.5)
        assert pytest.approx(1.0 / ((1.0 + row.beta) * (2.0 - 1.0 / 0.7) * least)) == row.A
        assert row.gamma_max_limit == theory.nonconvex_step_limit("armijo", rho=1.25, **method)
        want = theory.strongly_convex("armijo", mu=0.3, gamma_max=1e3, **method).contraction
        assert row.contraction == pytest.approx(want, rel=1e-12)
    rows = theory.side_by_side(L=1.0, mu=0.1)
    constants = np.array([[1.0 / row.contraction, row.A, row.best] for row in rows])
    assert (np.diff(constants, axis=0) > 0.0).all()  # momentum improves none of them


@pytest.mark.parametrize("c", [0.75, 1.0, 2.0])
def test_cap_of_momsps(c):
    """The cap at which the two sums of its proof balance."""
    alpha = 1.0 / (2.0 * c)
    for row in theory.side_by_side(L=1.0, mu=0.1, c=c, betas=(0.3, 0.5, 0.9)):
        balanced = alpha * (2.0 - (1.0 - row.beta) / c) / (2.0 * row.beta)
        assert row.momsps_gamma_max == pytest.approx(max(balanced, alpha))
