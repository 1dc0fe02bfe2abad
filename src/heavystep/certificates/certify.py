"""Certify a recorded run: all checks that apply to it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from heavystep import validation
from heavystep.certificates.belonging import (
    check_finite,
    check_losses,
    check_squares,
    of_problem,
)
from heavystep.certificates.check import Certificate, Check, Skipped
from heavystep.certificates.diminishing import DIMINISHING
from heavystep.certificates.measured import Measured
from heavystep.certificates.path import Path, path_checks
from heavystep.certificates.rounding import Rounding
from heavystep.certificates.standard import STANDARD
from heavystep.certificates.steps import step_checks
from heavystep.problems import FiniteSum
from heavystep.records import Record
from heavystep.schedules import Schedules


def certify(
    record: Record,
    problem: FiniteSum | None = None,
    *,
    L: Any = None,
    schedules: Schedules | None = None,
    samples: Any = None,
) -> Certificate:
    r"""Check a recorded run against every lemma and theorem that says something about it.

    From the recorded scalars alone: the step bounds (Lemmas 2 and 5) and the basic inequality
    (Lemmas 1 and 6) at every step. With iterates: the decoupling identity (Lemma 3). With the
    problem: the decoupling inequality (Lemma 4), the distance recursion on every run, and the
    bound of each theorem at every k, for the mean over runs less its standard error. Results that
    do not apply to the run are in ``skipped``, with the reason.

    Args:
        record: from :func:`heavystep.simulation.batch.record_runs` or :class:`heavystep.Recorder`.
        problem: the finite sum that was minimised, with its exact constants.
        L: smoothness of the sampled losses where there is no ``problem``, for the smallest
            step: a number, or the estimate of :func:`heavystep.estimate_smoothness`, which the
            table then names.
        schedules: the power laws of a diminishing run, for Theorems 6 to 9.
        samples: which terms of the problem were sampled, (R, K), where the record does not
            say it; losses and gradients are then compared with the problem's.

    Raises:
        TypeError: an argument is of another kind.
        ValueError: no theorem covers the rule, or the record is not finite or not one of this
            problem; names the rule, or the run and the step.

    >>> from heavystep.problems import paper_least_squares
    >>> from heavystep.simulation.batch import draw_samples, record_runs
    >>> from heavystep.simulation.configuration import configure
    >>> problem = paper_least_squares(noise=0.3)
    >>> method = configure("SHBPolyak", momentum=0.5, c=0.75, scaling="theory")
    >>> record = record_runs(problem, method, draw_samples(problem, runs=5, steps=50))
    >>> certificate = certify(record, problem)
    >>> certificate.holds, certificate["Theorem 2"].row()["quantity"]
    (True, 'E F(mean of theta_0..theta_{k-1}) - F*')
    """
    _check_kinds(record, problem, schedules)
    _ = record.theory  # refuses a rule that no theorem covers
    smoothness, note = _smoothness(L, problem)
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
    outcomes += _path_and_theorems(record, problem, schedules, rounding)
    return _certificate(outcomes)


def _path_and_theorems(
    record: Record, problem: FiniteSum | None, schedules: Schedules | None, rounding: Rounding
) -> Iterator[Check | Skipped]:
    theorems = DIMINISHING if record.scaling == "plain" else STANDARD
    if record.iterates is None or record.gradients is None:
        for result in ("Lemma 3", "Lemma 4", *theorems):
            yield Skipped(result, "needs iterates and gradients, not recorded here")
        return
    path = Path(record, record.iterates, record.gradients, rounding)
    yield from path_checks(path, problem)
    for result, bound in theorems.items():
        if problem is None:
            yield Skipped(result, "needs the problem and its constants")
            continue
        try:
            yield bound(result, Measured(path, problem, schedules))
        except ValueError as reason:  # a condition of the theorem does not hold here
            yield Skipped(result, str(reason).removeprefix(result).lstrip(": "))


def _certificate(outcomes: list[Check | Skipped]) -> Certificate:
    """The checks that were made. One that applies to no step counts as skipped."""
    made = tuple(o for o in outcomes if isinstance(o, Check) and o.applied)
    skipped = {o.result: o.reason for o in outcomes if isinstance(o, Skipped)}
    for idle in (o for o in outcomes if isinstance(o, Check) and not o.applied):
        skipped[f"{idle.result}, {idle.quantity}"] = "applies to no step of this run"
    return Certificate(made, skipped)


def _check_kinds(record: Any, problem: Any, schedules: Any) -> None:
    wanted = (("record", record, Record), ("problem", problem, FiniteSum))
    for name, value, kind in (*wanted, ("schedules", schedules, Schedules)):
        if not isinstance(value, kind) and (value is not None or name == "record"):
            hint = ": call its record()" if hasattr(value, "record") else ""
            raise TypeError(f"{name} must be a {kind.__name__}, got {type(value).__name__}{hint}")


def _smoothness(L: Any, problem: FiniteSum | None) -> tuple[float | None, str]:
    """L if it is known, and the note about it in the table."""
    if L is None:
        return (None if problem is None else problem.L), ""
    if problem is not None:
        raise ValueError("give the problem or L, not both: the problem has its own L")
    value = getattr(L, "value", L)
    validation.real("L", value, validation.POSITIVE)
    return float(value), "" if value is L else " (estimated L)"
