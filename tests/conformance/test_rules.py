"""Every rule on every back end gives the numbers of the tables."""

from math import inf, nan
from types import SimpleNamespace

import pytest
import torch

import heavystep.optim.measure  # noqa: F401  it makes rules take tensors
from heavystep import rules
from heavystep.rules.scaling import cap_of, growth_of

# loss, grad_sqnorm, lower_bound, c, kappa, cap -> step
POLYAK_CASES = {
    "plain": ((3.0, 8.0, 1.0, 0.5, 1.0, 10.0), 0.5),
    "kappa": ((3.0, 8.0, 1.0, 0.5, 0.25, 10.0), 0.125),
    "c": ((3.0, 8.0, 1.0, 2.0, 1.0, 10.0), 0.125),
    "cap active": ((3.0, 8.0, 1.0, 0.5, 1.0, 0.25), 0.25),
    "cap not scaled by kappa": ((3.0, 1.0, 1.0, 0.5, 0.5, 0.25), 0.25),
    "negative lower bound": ((-1.0, 8.0, -3.0, 0.5, 1.0, 10.0), 0.5),
    "zero gradient": ((3.0, 0.0, 1.0, 0.5, 1.0, 10.0), 0.0),
    "zero gradient at the bound": ((1.0, 0.0, 1.0, 0.5, 1.0, 10.0), 0.0),
    "loss at the bound": ((1.0, 8.0, 1.0, 0.5, 1.0, 10.0), 0.0),
    "loss below the bound": ((0.5, 8.0, 1.0, 0.5, 1.0, 10.0), 0.0),
    "subnormal gradient": ((1.0, 5e-324, 0.0, 1.0, 1.0, 2.0), 2.0),
    "c g^2 underflows": ((1.0, 5e-324, 0.0, 0.25, 1.0, 2.0), 0.0),
    "NaN loss": ((nan, 8.0, 1.0, 0.5, 1.0, 10.0), nan),
    "NaN gradient": ((3.0, nan, 1.0, 0.5, 1.0, 10.0), nan),
    "infinite loss": ((inf, 8.0, 1.0, 0.5, 1.0, 10.0), 10.0),
    "infinite gradient": ((3.0, inf, 1.0, 0.5, 1.0, 10.0), 0.0),
}

# loss, grad_sqnorm -> may be used
FINITE_CASES = {
    "finite": ((1.0, 2.0), True),
    "zero": ((0.0, 0.0), True),
    "NaN loss": ((nan, 1.0), False),
    "infinite loss": ((inf, 1.0), False),
    "minus infinity": ((-inf, 1.0), False),
    "NaN gradient": ((1.0, nan), False),
    "infinite gradient": ((1.0, inf), False),
}

# last_step, factor, max_step -> cap
CAP_CASES = {
    "first step": ((inf, 2.0, 0.5), 0.5),
    "no reset": ((0.1, inf, 0.5), 0.5),
    "reset active": ((0.1, 2.0, 0.5), 0.2),
    "max_step active": ((0.4, 2.0, 0.5), 0.5),
}

# last_step, step -> next last_step
REMEMBER_CASES = {
    "step": ((0.5, 0.25), 0.25),
    "zero step": ((0.5, 0.0), 0.5),
}

MAXIMUM_CASES = {"first": ((2.0, 1.0), 2.0), "second": ((1.0, 2.0), 2.0), "NaN": ((nan, 1.0), nan)}

# test(loss, grad_sqnorm, lower_bound, c, decrease_factor, max_trials, loss_eps), first trial,
# trial losses -> (trial, trials, capped, active, accepted)
ARMIJO_CASES = {
    "accepted at once": ((3.0, 8.0, -inf, 0.5, 0.5, 9, 0.0), 0.25, [2.0], (0.25, 1, True, False, True)),
    "just too large": ((3.0, 8.0, -inf, 0.5, 0.5, 9, 0.0), 0.25, [2.01], (0.125, 1, False, True, False)),
    "second trial": ((3.0, 8.0, -inf, 0.5, 0.5, 9, 0.0), 0.25, [9.0, 2.5], (0.125, 2, False, False, True)),
    "NaN then good": ((3.0, 8.0, -inf, 0.5, 0.5, 9, 0.0), 0.25, [nan, 2.5], (0.125, 2, False, False, True)),
    "minus infinity is no loss": ((3.0, 8.0, -inf, 0.5, 0.5, 9, 0.0), 0.25, [-inf], (0.125, 1, False, True, False)),
    "out of trials": ((3.0, 8.0, -inf, 0.5, 0.5, 2, 0.0), 0.25, [9.0, 9.0], (0.0, 2, False, False, False)),
    "skipped trials do not count": (
        (3.0, 8.0, 0.0, 0.5, 0.5, 1, 0.0), 2.0, [0.5], (0.5, 1, False, False, True)),
    "outside the tolerance": ((3.0, 8.0, -inf, 0.5, 0.5, 9, 1e-3), 0.25, [2.0121], (0.125, 1, False, True, False)),
    "within the tolerance": ((3.0, 8.0, -inf, 0.5, 0.5, 9, 1e-3), 0.25, [2.0119], (0.25, 1, True, False, True)),
    "zero gradient": ((3.0, 0.0, -inf, 0.5, 0.5, 9, 0.0), 0.25, [], (0.0, 0, False, False, True)),
    "below the bound": ((3.0, 8.0, 4.0, 0.5, 0.5, 9, 0.0), 0.25, [], (0.0, 0, False, False, True)),
    "NaN loss": ((nan, 8.0, -inf, 0.5, 0.5, 9, 0.0), 0.25, [], (0.0, 0, False, False, False)),
    "infinite gradient": ((3.0, inf, -inf, 0.5, 0.5, 9, 0.0), 0.25, [], (0.0, 0, False, False, False)),
}  # fmt: skip


def step_cap(last_step, growth_factor, max_step):
    constants = SimpleNamespace(growth_factor=growth_factor, max_step=max_step)
    return cap_of(constants, SimpleNamespace(last_step=last_step))


def tensor(value):
    return torch.tensor(value, dtype=torch.bool if isinstance(value, bool) else torch.float64)


def mixed(args):
    """As the optimizers call it: measured quantities are tensors, options are numbers."""
    return [tensor(a) if k < 2 or isinstance(a, bool) else a for k, a in enumerate(args)]


BACK_ENDS = {"python": list, "torch": lambda args: map(tensor, args), "torch mixed": mixed}
TABLES = {
    rules.polyak_step: POLYAK_CASES,
    rules.batch_is_finite: FINITE_CASES,
    step_cap: CAP_CASES,
    rules.remember_step: REMEMBER_CASES,
    rules.maximum: MAXIMUM_CASES,
}


@pytest.mark.parametrize("back_end", BACK_ENDS)
@pytest.mark.parametrize("rule", TABLES, ids=lambda rule: rule.__name__)
def test_rule_table(rule, back_end):
    for name, (args, expected) in TABLES[rule].items():
        found = rule(*BACK_ENDS[back_end](args))
        assert back_end == "python" or found.shape == ()
        assert float(found) == pytest.approx(float(expected), rel=0, abs=0, nan_ok=True), name


def search_of(numbers, first_trial):
    """The Armijo rule as :data:`ARMIJO_CASES` gives it: kappa is 1, and nothing is remembered."""
    loss, grad_sqnorm, lower_bound, c, omega, max_trials, eps = numbers
    constants = rules.ARMIJO.Constants(
        c=c, kappa=1.0, growth_factor=inf, max_step=first_trial, decrease_factor=omega,
        max_trials=max_trials,
    )  # fmt: skip
    memory = rules.ARMIJO.Memory(inf)
    return constants, memory, rules.Seen(loss, lower_bound, grad_sqnorm, loss_eps=eps)


def drive(constants, memory, seen, losses):
    search = rules.ARMIJO.start(constants, memory, seen)
    for loss in losses:
        assert search.active
        search = rules.ARMIJO.advance(constants, memory, seen, search, loss)
    return search


@pytest.mark.parametrize("name", ARMIJO_CASES)
def test_armijo_table(name):
    numbers, first_trial, losses, expected = ARMIJO_CASES[name]
    end = drive(*search_of(numbers, first_trial), losses)
    assert (end.trial, end.trials, end.capped, end.active, end.accepted) == expected


def test_the_step_is_kappa_times_the_trial():
    numbers, first_trial, losses, expected = ARMIJO_CASES["second trial"]
    constants, memory, seen = search_of(numbers, first_trial)
    scaled = constants._replace(kappa=0.25, max_step=0.25 * first_trial)
    search = drive(scaled, memory, seen, losses)
    assert search.trial == expected[0]
    assert search.step == 0.25 * search.trial
    assert rules.ARMIJO.remember(scaled, memory, seen, search) == (search.step,)


@pytest.mark.parametrize("bound", [1.0, 1.0000001])
def test_a_trial_that_cannot_succeed_asks_for_less_than_the_bound(bound):
    case = search_of((3.0, 8.0, bound, 0.5, 0.5, 9, 0.0), 0.5)  # asks for 3 - 0.5 * 0.5 * 8 = 1
    search = rules.ARMIJO.start(*case)
    assert (search.trial, search.capped) == ((0.5, True) if bound == 1.0 else (0.25, False))


@pytest.mark.parametrize("factor", [0.3, 0.5, 0.9])
def test_a_search_ends_when_the_grid_does(factor):
    """The smallest positive number times 0.9 rounds to itself."""
    case = search_of((3.0, 8.0, 0.0, 0.5, factor, 10**9, 0.0), 1e-320)
    search = rules.ARMIJO.start(*case)
    for _ in range(200):
        if not search.active:
            break
        search = rules.ARMIJO.advance(*case, search, inf)
    assert not search.active
    assert not search.accepted


def test_kappa_is_the_table_of_the_paper():
    for beta in (0.0, 0.5, 0.9):
        s_beta = (1 - beta**0.5) ** 2
        assert rules.momentum_factor(beta) == pytest.approx(s_beta, rel=1e-15)
        assert rules.kappa("theory", beta) == pytest.approx(s_beta / 2, rel=1e-15)
        assert rules.kappa("practical", beta) == 0.5
        assert rules.kappa("plain", beta) == 1.0
    with pytest.raises(ValueError, match="scaling must be one of"):
        rules.kappa("fast", 0.5)


def test_products_are_in_the_order_of_what_a_rule_sees():
    """A kernel puts them together by place."""
    first, *others = rules.PRODUCTS
    known = ("loss", "lower_bound", first, "loss_eps")
    assert rules.Seen._fields == (*known, *others)


def test_growth_over_an_epoch_is_the_growth():
    growing = {"growth": 4.0, "steps_per_epoch": 37}
    assert growth_of(growing) ** 37 == pytest.approx(4.0, rel=1e-12)
    assert growth_of({**growing, "steps_per_epoch": None}) == inf
