"""Every rule on every back end gives the numbers of the tables."""

from math import inf

import pytest
import torch

from heavystep import rules
from tests.helpers.cases import ARMIJO_CASES, CAP_CASES, FINITE_CASES, POLYAK_CASES, REMEMBER_CASES


def plain(rule):
    return lambda *args: rule(*args)


def tensors(rule):
    def call(*args):
        scalars = [
            torch.tensor(a, dtype=torch.bool if isinstance(a, bool) else torch.float64)
            for a in args
        ]
        result = rule(*scalars)
        assert result.shape == ()
        return result.item()

    return call


def mixed_tensors(rule):
    """As the optimizers call it: measured quantities are tensors, options are numbers."""

    def call(*args):
        first = torch.tensor(args[0], dtype=torch.float64)
        second = torch.tensor(args[1], dtype=torch.float64)
        rest = [torch.tensor(a) if isinstance(a, bool) else a for a in args[2:]]
        return rule(first, second, *rest).item()

    return call


BACK_ENDS = {"python": plain, "torch": tensors, "torch mixed": mixed_tensors}
TABLES = {
    rules.polyak_step: POLYAK_CASES,
    rules.batch_is_finite: FINITE_CASES,
    rules.step_cap: CAP_CASES,
    rules.remember_step: REMEMBER_CASES,
}


@pytest.mark.parametrize("back_end", BACK_ENDS)
@pytest.mark.parametrize("rule", TABLES, ids=lambda rule: rule.__name__)
def test_rule_table(rule, back_end):
    call = BACK_ENDS[back_end](rule)
    for name, (args, expected) in TABLES[rule].items():
        assert call(*args) == pytest.approx(expected, rel=0, abs=0, nan_ok=True), name


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


def told(search):
    """In the order of the table."""
    return search.trial, search.trials, search.capped, search.active, search.accepted


@pytest.mark.parametrize("name", ARMIJO_CASES)
def test_armijo_table(name):
    numbers, first_trial, losses, expected = ARMIJO_CASES[name]
    case = search_of(numbers, first_trial)
    assert told(drive(*case, losses)) == expected


@pytest.mark.parametrize(
    "name", ["accepted at once", "second trial", "out of trials", "zero gradient"]
)
def test_armijo_accepts_tensors(name):
    numbers, first_trial, losses, expected = ARMIJO_CASES[name]
    as_tensors = [torch.tensor(float(x), dtype=torch.float64) for x in numbers]
    search = drive(*search_of(as_tensors, torch.tensor(first_trial, dtype=torch.float64)), losses)
    assert tuple(float(x) for x in told(search)) == tuple(float(x) for x in expected)


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
    numbers = (3.0, 8.0, bound, 0.5, 0.5, 9, 0.0)
    case = search_of(numbers, 0.5)  # asks for a loss of 3 - 0.5 * 0.5 * 8 = 1
    search = rules.ARMIJO.start(*case)
    skipped = rules.ARMIJO.skip(*case, search)
    assert (skipped.trial == search.trial) == (bound == 1.0)
    there = rules.ARMIJO.advance(*case, search, 1.0)
    assert (there.accepted, there.trials) == ((True, 1) if bound == 1.0 else (False, 0))


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
    assert rules.growth_factor(4.0, 37) ** 37 == pytest.approx(4.0, rel=1e-12)
    assert rules.growth_factor(2.0, None) == inf
