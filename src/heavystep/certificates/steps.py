"""Lemmas 1, 2, 5 and 6: what every single step must satisfy, from recorded scalars."""

from collections.abc import Iterator

import numpy as np

from heavystep.certificates.check import TINY, Check
from heavystep.records import Array, Record
from heavystep.rules import kappa
from heavystep.theory.basic_inequality import largest_slope
from heavystep.theory.step_bounds import smallest_step

ROUNDINGS = 64.0
"""How many roundings a loss or a step may carry, in units of eps of its size."""
EXACT = ("Lemma 2", "Lemma 1")
NAMES = {"theory": EXACT, "practical": EXACT, "plain": ("Lemma 5", "Lemma 6")}
"""Names of the two results; with practical scaling their formula at kappa = 1/2."""


def step_checks(record: Record, L: float | None) -> Iterator[Check]:
    """Step bounds (the lower one if ``L`` is known) and the basic inequality (if f* is)."""
    bounds, basic = NAMES[record.scaling]
    k = np.arange(record.steps)
    moved = record.accepted & (record.grad_sqnorm > 0.0)
    gamma = np.where(moved, record.gamma, np.nan)
    largest = np.broadcast_to(record.eta * record.gamma_max, gamma.shape)
    unit = ROUNDINGS * record.eps
    yield Check(bounds, "gamma_k <= eta_k gamma_max,k", k, gamma, largest, unit * largest)
    if L is not None and not record.smooth_reset:
        least = np.broadcast_to(record.eta * least_steps(record, L), gamma.shape)
        rounding = _relative_rounding(record, least, unit)
        # Where rounding decides, the lemma says nothing about the numbers at hand.
        resolved = np.where(rounding < 0.5, gamma, np.nan)
        yield Check(
            bounds, "gamma_k >= eta_k gamma_min,k", k, resolved, least, rounding * least, lower=True
        )
    if np.isfinite(record.f_star).all():
        gap = record.loss - record.f_star
        factor = largest_slope(
            record.scaling, beta=record.beta, eta=record.eta, c=record.c, gap=1.0
        )
        tolerance = factor * unit * _size(record) + unit * factor * abs(gap)
        yield Check(
            basic,
            "gamma_k ||g_k||^2 <= eta_k kappa / c (f_k - f*)",
            k,
            gamma * record.grad_sqnorm,
            factor * gap,
            tolerance,
        )


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


def _size(record: Record) -> Array:
    low = np.where(np.isfinite(record.f_star), record.f_star, 0.0)
    size: Array = abs(record.loss) + abs(low)
    return size


def _relative_rounding(record: Record, least: Array, unit: float) -> Array:
    """How far rounding of the losses may move the smallest step, relative to it.

    Polyak divides the height above f*; Armijo compares losses that differ by about c t ||g||^2
    and (1 - c) t ||g||^2 from what decides, with t the smallest trial.
    """
    if record.omega is None:
        decisive = record.loss - record.f_star
    else:
        trial = least / (record.eta * _kappas(record))
        decisive = min(record.c, 1.0 - record.c) * trial * record.grad_sqnorm
    relative: Array = unit * (1.0 + _size(record) / np.maximum(decisive, TINY))
    return relative
