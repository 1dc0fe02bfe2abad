"""The step of each rule inside kernels."""

from typing import Any, NamedTuple

from heavystep.rules import (
    ArmijoTest,
    armijo_advance,
    armijo_start,
    polyak_step,
    skip_impossible,
)
from heavystep.simulation import numba_rules as numba_rules
from heavystep.simulation.checks import EPS
from heavystep.simulation.terms import implement, prepare_search, trial_loss


class FixedRule(NamedTuple):
    """The step is the cap; the constant is not used."""

    c: float


class PolyakRule(NamedTuple):
    """Constants of the Polyak rule."""

    c: float


class ArmijoRule(NamedTuple):
    """Constants of the line search."""

    c: float
    omega: float
    max_trials: int


def choose(
    rule: Any, terms: Any, theta: Any, g: Any, batch: Any, work: Any, seen: Any, limits: Any
) -> Any:
    """The step before its multiplier, the trials, and whether there is a step at all.

    ``seen`` is loss, lower bound and squared norm, ``limits`` kappa and the cap.
    """
    raise NotImplementedError


def _fixed(
    rule: Any, terms: Any, theta: Any, g: Any, batch: Any, work: Any, seen: Any, limits: Any
) -> Any:
    return limits[1], 0, True


def _polyak(
    rule: Any, terms: Any, theta: Any, g: Any, batch: Any, work: Any, seen: Any, limits: Any
) -> Any:
    loss, low, sqnorm = seen
    kappa, cap = limits
    return polyak_step(loss, sqnorm, low, rule.c, kappa, cap), 0, True


def _armijo(
    rule: Any, terms: Any, theta: Any, g: Any, batch: Any, work: Any, seen: Any, limits: Any
) -> Any:
    loss, low, sqnorm = seen
    kappa, cap = limits
    test = ArmijoTest(loss, sqnorm, low, rule.c, rule.omega, rule.max_trials, EPS)
    search = skip_impossible(test, armijo_start(test, cap / kappa))
    if search.active:
        prepare_search(terms, theta, g, batch, work)
    while search.active:
        value = trial_loss(terms, theta, g, search.trial, batch, work)
        search = armijo_advance(test, search, value)
    return kappa * search.trial, search.trials, search.accepted


for _kind, _function in ((FixedRule, _fixed), (PolyakRule, _polyak), (ArmijoRule, _armijo)):
    implement(_kind, {choose: _function})
