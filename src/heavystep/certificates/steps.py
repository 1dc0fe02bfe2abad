"""Lemmas 1, 2, 5 and 6: what every single step must satisfy, from recorded scalars."""

from collections.abc import Iterator

import numpy as np

from heavystep.arrays import Array
from heavystep.certificates.check import Check, Skipped
from heavystep.certificates.rounding import Rounding
from heavystep.records import Record
from heavystep.rules import kappa
from heavystep.theory.steps import largest_slope
from heavystep.theory.rules import SmallestStep
from heavystep.theory.steps import smallest_step

NAMES = {
    "theory": ("Lemma 2", "Lemma 1"),
    "practical": ("Lemma 2 at kappa = 1/2", "Lemma 1 at kappa = 1/2"),
    "plain": ("Lemma 5", "Lemma 6"),
}
"""The step bounds and the basic inequality, by scaling.

The paper states nothing about the practical scaling; the formulas hold with its kappa."""


def step_checks(
    record: Record, L: float | None, rounding: Rounding, note: str
) -> Iterator[Check | Skipped]:
    """The step bounds and the basic inequality.

    The smallest step needs ``L``, the basic inequality needs lower bounds of the losses. ``note``
    is what the table says about ``L``.
    """
    bounds, basic = NAMES[record.scaling]
    k = np.arange(record.steps)
    # A squared norm below the normal numbers has lost digits.
    moved = record.accepted & (record.grad_sqnorm > record.tiny / record.eps)
    gamma = np.where(moved, record.gamma, np.nan)
    largest = np.broadcast_to(record.eta * record.gamma_max, gamma.shape)
    yield Check(bounds, "gamma_k <= eta_k gamma_max,k", k, gamma, largest, rounding.unit * largest)
    if L is None:
        yield Skipped(f"{bounds}, smallest step", "needs the problem or its L")
    elif record.smooth_reset:
        yield Skipped(f"{bounds}, smallest step", "is about a given cap, the run used smooth reset")
    else:
        least = np.broadcast_to(record.eta * least_steps(record, L), gamma.shape)
        relative = rounding.unit + _blur(record, least, rounding)
        # Where rounding decides, the recorded numbers say nothing about the lemma.
        resolved = np.where(relative < 0.5, gamma, np.nan)
        quantity = f"gamma_k >= eta_k gamma_min,k{note}"
        yield Check(bounds, quantity, k, resolved, least, relative * least, lower=True)
    if not np.isfinite(record.f_star).all():
        yield Skipped(basic, "needs lower bounds of the losses, the run had none")
        return
    factor = largest_slope(record.scaling, beta=record.beta, eta=record.eta, c=record.c, gap=1.0)
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
    """How far rounding of the losses may move the smallest step, relative to it."""
    scale = record.eta * _kappas(record)
    at = SmallestStep(record.loss, record.f_star, record.grad_sqnorm, least, scale)
    decisive = record.theory.decisive_loss(at)
    blur: Array = np.full_like(decisive, np.inf)
    np.divide(rounding.loss, decisive, out=blur, where=decisive > 0.0)
    return blur
