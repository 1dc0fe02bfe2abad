"""Refuse a record that is not of this problem, before anything is compared."""

from dataclasses import replace

import numpy as np

from heavystep.arrays import Array, square
from heavystep.certificates.rounding import ROUNDINGS, Rounding
from heavystep.problems import FiniteSum
from heavystep.records import Record


def check_finite(record: Record) -> None:
    """Refuse NaN or infinity where a step was taken: comparisons would overlook them."""
    for name in ("gamma", "loss", "grad_sqnorm", "iterates", "gradients"):
        values = getattr(record, name)
        if values is None:
            continue
        used = record.accepted if name != "iterates" else np.ones(values.shape[:2], dtype=bool)
        finite = np.isfinite(values).reshape(*values.shape[:2], -1).all(axis=-1)
        _refuse(used & ~finite, f"{name} is not finite", "nothing to certify")


def check_squares(record: Record, rounding: Rounding) -> None:
    """Refuse squared norms that are not those of the recorded gradients."""
    if record.gradients is not None:
        squares = square(record.gradients)
        allowed = rounding.unit * squares + ROUNDINGS * record.tiny
        wrong = record.accepted & (abs(record.grad_sqnorm - squares) > allowed)
        _refuse(wrong, "grad_sqnorm is not that of the recorded gradient", "nothing to certify")


def of_problem(record: Record, problem: FiniteSum) -> Record:
    """The record, if its points and samples fit the problem.

    For a rule whose steps do not depend on lower bounds Lemma 1 holds with the exact infima,
    whatever bounds it was given: the record then has the infima as ``f_star``.
    """
    if record.iterates is not None and record.iterates.shape[-1] != problem.dim:
        found = record.iterates.shape[-1]
        raise ValueError(
            f"the record has points of {found} numbers, the problem has {problem.dim} parameters"
        )
    if record.samples is None:
        return record
    if not np.issubdtype(record.samples.dtype, np.integer):
        raise TypeError(f"samples must be whole numbers, got {record.samples.dtype}")
    outside = (record.samples < 0) | (record.samples >= problem.n)
    _refuse(outside, "samples name no term", f"the problem has {problem.n} terms")
    if not record.theory.uses_lower_bound:
        record = replace(record, f_star=problem.f_star[record.samples])
    return record


def check_losses(record: Record, problem: FiniteSum, rounding: Rounding) -> None:
    """Refuse losses and gradients that are not the problem's at the recorded points."""
    if record.iterates is None or record.samples is None:
        return
    before = record.iterates[:, :-1]
    losses = problem.losses(before, record.samples)
    wrong = record.accepted & (abs(record.loss - losses) > rounding.loss)
    _refuse(wrong, "loss is not the problem's", "was it run on another problem?")
    if record.gradients is not None:
        off = record.gradients - problem.gradients(before, record.samples)
        allowed = rounding.unit * np.sqrt(record.grad_sqnorm) + problem.L * rounding.point[:, :-1]
        wrong = record.accepted & (np.linalg.norm(off, axis=-1) > allowed + record.tiny)
        _refuse(wrong, "gradient is not the problem's", "was it run on another problem?")


def _refuse(where: Array, what: str, why: str) -> None:
    if where.any():
        run, k = (int(i[0]) for i in np.nonzero(where))
        raise ValueError(f"{what} in run {run} at step {k}: {why}")
