"""Certify a recorded run: all checks that apply to it."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from heavystep import validation
from heavystep.certificates import lemmas, theorems
from heavystep.certificates.check import Certificate, Check
from heavystep.certificates.run import Run
from heavystep.problems import FiniteSum
from heavystep.records import Record
from heavystep.schedules import Schedules
from heavystep.theory.registry import RESULTS

Checks = dict[str, Callable[[str, Run], Check]]


OF_NUMBERS = (
    lemmas.largest_step, lemmas.smallest_step, lemmas.basic_inequality, lemmas.uniform_samples
)  # fmt: skip
"""Checks that need neither iterates nor gradients."""


def _of_numbers(bounds: str, basic: str) -> Checks:
    """Their names are those of the lemmas."""
    names = bounds, f"{bounds}, smallest step", basic, "Samples"
    return dict(zip(names, OF_NUMBERS, strict=True))


PATH: Checks = {
    "Heavy ball": lemmas.heavy_ball,
    "Lemma 3": lemmas.identity,
    "Lemma 4": lemmas.inequality,
}
STANDARD: Checks = {
    **dict.fromkeys(("Theorem 1", "Theorem 2", "Theorem 3"), theorems.in_expectation),
    "Theorem 4": theorems.theorem_4,
    "Theorem 5": theorems.in_expectation,
}
SCALINGS: dict[str, Checks] = {
    "theory": {
        **_of_numbers("Lemma 2", "Lemma 1"),
        **PATH,
        "Recursion of Theorem 2": lemmas.recursion,
        **STANDARD,
    },
    # The paper states nothing about this scaling; the formulas of the lemmas hold with its kappa.
    "practical": {
        **_of_numbers("Lemma 2 at kappa = 1/2", "Lemma 1 at kappa = 1/2"),
        **PATH,
        **STANDARD,
    },
    "plain": {
        **_of_numbers("Lemma 5", "Lemma 6"),
        **PATH,
        "Recursion of Theorem 6": lemmas.recursion,
        **dict.fromkeys(("Theorem 6", "Theorem 7"), theorems.in_expectation),
        "Tail inequality of Theorem 8": theorems.tail_of_theorem_8,
        "Tail inequality of Theorem 9": theorems.tail_of_theorem_9,
    },
}
"""The checks for each scaling."""


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
    (Lemmas 1 and 6). With iterates: the decoupling identity (Lemma 3). With the problem: Lemma 4,
    the distance recursion on every run, the bound of each theorem at every k, for the mean over
    runs less its standard error, and how evenly samples were drawn. ``skipped`` has the results
    that do not apply to the run, with the reasons.

    Args:
        record: of runs that were simulated, or of a :class:`heavystep.Recorder`.
        problem: the finite sum that was minimised, with its exact constants.
        L: smoothness of the sampled losses where there is no ``problem``: a number, or the
            estimate of :func:`heavystep.estimate_smoothness`, which the table then names.
        schedules: the power laws of a diminishing run, for Theorems 6 to 9.
        samples: (R, K) terms of the problem that were sampled, where the record does not say it;
            losses and gradients are then compared with the problem's.
        asked: results that the run must be covered by, such as ``["Theorem 2"]``; by default any
            theorem will do.

    Raises:
        TypeError: an argument is of another kind.
        ValueError: no theorem covers the rule, the record is not finite or not of this problem,
            or a result that was asked about does not exist.

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
    if samples is not None:
        record = replace(record, samples=np.asarray(samples).reshape(record.gamma.shape))
    run = Run(record, problem, L=L, schedules=schedules)
    with_path = record.iterates is not None and record.gradients is not None
    checks, skipped = [], {}
    for result, make in SCALINGS[record.scaling].items():
        if problem is None and make in (lemmas.uniform_samples, lemmas.recursion):
            continue
        try:
            if make not in OF_NUMBERS and not with_path:
                raise ValueError("needs iterates and gradients, not recorded here")
            check = make(result, run)
        except ValueError as reason:  # it does not apply to this run
            skipped[result] = str(reason).removeprefix(result).lstrip(": ")
            continue
        if check.applied:
            checks.append(check)
        else:
            skipped[f"{check.result}, {check.quantity}"] = "applies to no step of this run"
    if problem is not None and run.record.samples is None:
        skipped["the problem"] = "was taken on trust: samples are not known"
    return Certificate(tuple(checks), skipped, wanted, lemmas.step_bias(run.record))
