"""Certify a recorded run: all checks that apply to it."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from heavystep import validation
from heavystep.arrays import Array, square
from heavystep.certificates.check import Certificate, Check, Skipped
from heavystep.certificates.lemmas import (
    ROUNDINGS,
    Path,
    Rounding,
    path_checks,
    sample_check,
    step_bias,
    step_checks,
)
from heavystep.certificates.theorems import DIMINISHING, STANDARD, Measured
from heavystep.problems import FiniteSum
from heavystep.records import Record
from heavystep.schedules import Schedules
from heavystep.theory.registry import RESULTS


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


def certify(
    record: Record,
    problem: FiniteSum | None = None,
    *,
    L: Any = None,
    schedules: Schedules | None = None,
    samples: Any = None,
    asked: Iterable[str] = (),
) -> Certificate:
    r"""Check a recorded run against every lemma and theorem that says something about it.

    From the recorded scalars alone: the step bounds (Lemmas 2 and 5) and the basic inequality
    (Lemmas 1 and 6) at every step. With iterates: the decoupling identity (Lemma 3). With the
    problem: the decoupling inequality (Lemma 4), the distance recursion on every run, and the
    bound of each theorem at every k, for the mean over runs less its standard error, and whether
    samples were drawn uniformly. Results that do not apply to the run are in ``skipped``, with the
    reason; ``covered`` says whether any theorem applies.

    Args:
        record: of runs that were simulated, or of a :class:`heavystep.Recorder`.
        problem: the finite sum that was minimised, with its exact constants.
        L: smoothness of the sampled losses where there is no ``problem``, for the smallest
            step: a number, or the estimate of :func:`heavystep.estimate_smoothness`, which the
            table then names.
        schedules: the power laws of a diminishing run, for Theorems 6 to 9.
        samples: which terms of the problem were sampled, (R, K), where the record does not
            say it; losses and gradients are then compared with the problem's.
        asked: results that the run must be covered by, such as ``["Theorem 2"]``; by default any
            theorem will do. ``covered`` and the last line of the text answer it.

    Raises:
        TypeError: an argument is of another kind.
        ValueError: no theorem covers the rule, or the record is not finite or not one of this
            problem; names the rule, or the run and the step. Or a result that was asked about
            does not exist.

    >>> import numpy as np
    >>> loss, ones = np.array([[2.0, 0.5]]), np.ones(2)  # of theta^2 / 2 at 2 and 1
    >>> record = Record("polyak", "theory", c=0.5, omega=None, beta=0 * ones, gamma_max=ones,
    ...                 eta=ones, gamma=np.full((1, 2), 0.5), loss=loss, grad_sqnorm=2 * loss,
    ...                 f_star=0 * loss, accepted=loss > 0)
    >>> certificate = certify(record, L=1.0)
    >>> certificate.holds, certificate.covered
    (True, False)
    >>> print(certificate.verdict)
    Every check holds, but no theorem covers the run.
    """
    kinds = {"record": (record, Record), "problem": (problem, FiniteSum),
             "schedules": (schedules, Schedules)}  # fmt: skip
    for name, (value, kind) in kinds.items():
        if not isinstance(value, kind) and (value is not None or name == "record"):
            hint = ": call its record()" if hasattr(value, "record") else ""
            raise TypeError(f"{name} must be a {kind.__name__}, got {type(value).__name__}{hint}")
    wanted = (asked,) if isinstance(asked, str) else tuple(asked)
    for result in wanted:
        validation.choice("asked", result, [each.id for each in RESULTS])
    _ = record.theory  # refuses a rule that no theorem covers
    if L is not None and problem is not None:
        raise ValueError("give the problem or L, not both: the problem has its own L")
    smoothness, note = None if problem is None else problem.L, ""
    if L is not None:
        smoothness, note = getattr(L, "value", L), " (estimated L)" if hasattr(L, "value") else ""
        validation.real("L", smoothness, validation.POSITIVE)
    if samples is not None:
        record = replace(record, samples=np.asarray(samples).reshape(record.gamma.shape))
    check_finite(record)
    if problem is not None:
        record = of_problem(record, problem)
    rounding = Rounding.of(record, problem, smoothness)
    check_squares(record, rounding)
    outcomes = list(step_checks(record, smoothness, rounding, note))
    if problem is not None:
        check_losses(record, problem, rounding)
        if record.samples is None:
            outcomes.append(Skipped("the problem", "was taken on trust: samples are not known"))
        outcomes.append(sample_check(record, problem.n))
    theorems = DIMINISHING if record.scaling == "plain" else STANDARD
    if record.iterates is None or record.gradients is None:
        reason = "needs iterates and gradients, not recorded here"
        outcomes += [Skipped(result, reason) for result in ("Lemma 3", "Lemma 4", *theorems)]
    else:
        path = Path(record, record.iterates, record.gradients, rounding)
        outcomes += path_checks(path, problem)
        outcomes += [_theorem(result, path, problem, schedules) for result in theorems]
    # One that applies to no step counts as skipped.
    made = tuple(o for o in outcomes if isinstance(o, Check) and o.applied)
    skipped = {o.result: o.reason for o in outcomes if isinstance(o, Skipped)}
    for idle in (o for o in outcomes if isinstance(o, Check) and not o.applied):
        skipped[f"{idle.result}, {idle.quantity}"] = "applies to no step of this run"
    return Certificate(made, skipped, wanted, step_bias(record))


def _theorem(
    result: str, path: Path, problem: FiniteSum | None, schedules: Schedules | None
) -> Check | Skipped:
    if problem is None:
        return Skipped(result, "needs the problem and its constants")
    try:
        return (STANDARD | DIMINISHING)[result](result, Measured(path, problem, schedules))
    except ValueError as reason:  # a condition of the theorem does not hold here
        return Skipped(result, str(reason).removeprefix(result).lstrip(": "))
