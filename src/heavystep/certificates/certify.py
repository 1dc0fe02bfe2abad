"""All checks that apply to a recorded run."""

import numpy as np

from heavystep import validation
from heavystep.certificates.check import Certificate, Check
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
    L: float | None = None,
    schedules: Schedules | None = None,
) -> Certificate:
    r"""Check a recorded run against every lemma and theorem that says something about it.

    From the recorded scalars alone: the step bounds (Lemmas 2 and 5) and the basic inequality
    (Lemmas 1 and 6) at every step. With iterates: the decoupling identity (Lemma 3). With the
    problem: the decoupling inequality (Lemma 4), the distance recursion on every run, and the
    bound of each theorem at every k, for the mean over runs less its standard error. What says
    nothing about the run is listed with the reason, in ``skipped``.

    Args:
        record: from :func:`heavystep.engine.batch.simulate` or :class:`heavystep.Recorder`.
        problem: the finite sum that was minimised, with its exact constants.
        L: smoothness of the sampled losses where there is no ``problem``, for the smallest
            step. An estimate makes that check an estimate, too.
        schedules: the power laws of a diminishing run, for Theorems 6 and 7.

    >>> from heavystep.engine.batch import draw_samples, simulate
    >>> from heavystep.problems import paper_least_squares
    >>> problem = paper_least_squares(noise=0.3)
    >>> samples = draw_samples(problem, runs=5, steps=50)
    >>> record = simulate(problem, "polyak", samples, beta=0.5, c=0.75, gamma_max=1.0)
    >>> certificate = certify(record, problem)
    >>> certificate.holds, certificate["Theorem 2"].row()["quantity"]
    (True, 'E F(mean of theta_0..theta_{k-1}) - F*')
    """
    if L is not None:
        validation.real("L", L, validation.POSITIVE)
    smoothness = L if problem is None else problem.L
    _check_finite(record)
    rounding = Rounding.of(record, problem, smoothness)
    checks = list(step_checks(record, smoothness, rounding))
    skipped: dict[str, str] = {}
    if record.iterates is None or record.gradients is None:
        skipped["Lemmas 3 and 4, Theorems 1-9"] = "need iterates and gradients, not recorded here"
        return _certificate(checks, skipped)
    path = Path(record, record.iterates, record.gradients, rounding)
    checks += path_checks(path, problem)
    if problem is None:
        skipped["Lemma 4, Theorems 1-9"] = "need the problem and its constants"
        return _certificate(checks, skipped)
    for result, bound in (DIMINISHING if record.scaling == "plain" else STANDARD).items():
        try:
            checks.append(bound(result, Measured(path, problem, schedules)))
        except ValueError as reason:  # a condition of the theorem does not hold here
            skipped[result] = str(reason).removeprefix(result).lstrip(": ")
    return _certificate(checks, skipped)


def _certificate(checks: list[Check], skipped: dict[str, str]) -> Certificate:
    """Only checks that were made count; one without a step to apply to certifies nothing."""
    idle = {check.result: "applies to no step of this run" for check in checks if not check.applied}
    return Certificate(tuple(check for check in checks if check.applied), skipped | idle)


def _check_finite(record: Record) -> None:
    """Refuse a run with NaN or infinity where a step was taken: comparisons would pass it over."""
    for name in ("gamma", "loss", "grad_sqnorm", "iterates", "gradients"):
        values = getattr(record, name)
        if values is None:
            continue
        used = record.accepted if name != "iterates" else np.ones(values.shape[:2], dtype=bool)
        finite = np.isfinite(values).reshape(*values.shape[:2], -1).all(axis=-1)
        if not finite[used].all():
            run, k = (int(i[0]) for i in np.nonzero(used & ~finite))
            raise ValueError(f"{name} is not finite in run {run} at step {k}: nothing to certify")
