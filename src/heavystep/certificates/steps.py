"""Lemmas 1, 2, 5 and 6: what every single step must satisfy, from recorded scalars."""

from collections.abc import Iterator

import numpy as np

from heavystep.certificates.check import Check
from heavystep.certificates.rounding import Rounding
from heavystep.records import Array, Record
from heavystep.rules import kappa
from heavystep.theory.basic_inequality import largest_slope
from heavystep.theory.step_bounds import smallest_step

EXACT = ("Lemma 2", "Lemma 1")
NAMES = {"theory": EXACT, "practical": EXACT, "plain": ("Lemma 5", "Lemma 6")}
"""Names of the two results; with practical scaling their formula at kappa = 1/2."""


def step_checks(record: Record, L: float | None, rounding: Rounding) -> Iterator[Check]:
    """Step bounds (the lower one if ``L`` is known) and the basic inequality (if f* is)."""
    bounds, basic = NAMES[record.scaling]
    k = np.arange(record.steps)
    moved = record.accepted & (record.grad_sqnorm > 0.0)
    gamma = np.where(moved, record.gamma, np.nan)
    largest = np.broadcast_to(record.eta * record.gamma_max, gamma.shape)
    yield Check(bounds, "gamma_k <= eta_k gamma_max,k", k, gamma, largest, rounding.unit * largest)
    if L is not None and not record.smooth_reset:
        least = np.broadcast_to(record.eta * least_steps(record, L), gamma.shape)
        relative = rounding.unit + _blur(record, least, rounding)
        # Where rounding decides, the lemma says nothing about the numbers at hand.
        resolved = np.where(relative < 0.5, gamma, np.nan)
        yield Check(
            bounds, "gamma_k >= eta_k gamma_min,k", k, resolved, least, relative * least, lower=True
        )
    if np.isfinite(record.f_star).all():
        factor = largest_slope(
            record.scaling, beta=record.beta, eta=record.eta, c=record.c, gap=1.0
        )
        bound = factor * (record.loss - record.f_star)
        tolerance = factor * rounding.loss + rounding.unit * abs(bound)
        quantity = "gamma_k ||g_k||^2 <= eta_k kappa / c (f_k - f*)"
        yield Check(basic, quantity, k, gamma * record.grad_sqnorm, bound, tolerance)


def least_steps(record: Record, L: float) -> Array:
    """(K,) gamma_min,k of Lemmas 2 and 5."""
    least: Array = smallest_step(
        record.rule,
        L=L,
        c=record.c,
        omega=record.omega,
        kappa=_kappas(record),
        cap=record.gamma_max,
    )
    return least


def _kappas(record: Record) -> Array:
    return np.array([kappa(record.scaling, float(beta)) for beta in record.beta])


def _blur(record: Record, least: Array, rounding: Rounding) -> Array:
    """How far rounding of the losses may move the smallest step, relative to it.

    Polyak divides the height above f*; Armijo compares losses that differ by about c t ||g||^2
    and (1 - c) t ||g||^2 from what decides, with t the smallest trial.
    """
    if record.omega is None:
        decisive = record.loss - record.f_star
    else:
        trial = least / (record.eta * _kappas(record))
        decisive = min(record.c, 1.0 - record.c) * trial * record.grad_sqnorm
    blur: Array = np.full_like(decisive, np.inf)
    np.divide(rounding.loss, decisive, out=blur, where=decisive > 0.0)
    return blur
