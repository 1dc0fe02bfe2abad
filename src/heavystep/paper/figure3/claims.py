"""What the paper claims about Figure 3, as predicates on the results."""

import math
from dataclasses import replace

import numpy as np

from heavystep.arrays import Array
from heavystep.data.cifar import CIFAR
from heavystep.paper.appendix_e import FAMILIES, FIXED, METHODS
from heavystep.paper.claim import Claim
from heavystep.paper.figure import Figure, by_data_set
from heavystep.paper.figure3.table import best_accuracy, final
from heavystep.training.results import TrainedCurve, TrainedResults
from heavystep.training.specification import TrainingRuns

MOST_EPOCHS = 0.9
"""A loss falls faster if it is lower at this share of the epochs. It need not be lower at all of
them, because curves start together and are noisy."""
HIGH, ALSO = 0.95, (0.9, 0.98)
"""A high accuracy is this share of the accuracy that both methods reach. The first share decides
the claim; the others are reported."""
COMPARABLE = 0.015
"""Test accuracies are comparable if they differ by at most this, which is about what seeds do."""

Runs = dict[str, TrainedCurve]


def figure3_claims(figure: Figure[TrainingRuns], results: TrainedResults) -> list[Claim]:
    """All claims, for each data set that has runs of every method."""
    claims = []
    for name, runs in by_data_set(figure, results).items():
        if set(runs) == set(METHODS):
            claims += [
                _faster(name, runs),
                _earlier(name, runs),
                _comparable(name, runs),
                *(_below_fixed(name, pair[0], runs) for pair in FAMILIES.values()),
                _without_momentum(name, runs),
            ]
    return [replace(claim, judged=not figure.reduced) for claim in claims]


def mean_loss(result: TrainedCurve) -> Array:
    """(epochs,) mean training loss over seeds."""
    mean: Array = result.metrics["loss"].mean(axis=0)
    return mean


def final_mean(result: TrainedCurve, metric: str) -> float:
    """The mean over seeds of a metric at the end of the runs."""
    return float(final(result.metrics[metric]).mean())


def first_epoch(result: TrainedCurve, accuracy: float) -> float:
    """The first epoch with a mean test accuracy of at least ``accuracy``; infinity if none has."""
    reached = result.metrics["test_accuracy"].mean(axis=0) >= accuracy
    return float(result.k[np.argmax(reached)]) if reached.any() else math.inf


def _faster(name: str, runs: Runs) -> Claim:
    with_momentum, without = FAMILIES["PS"]
    loss, other = mean_loss(runs[with_momentum]), mean_loss(runs[without])
    share = float((loss < other).mean())
    # A loss of 0 has no logarithm: none was seen, and the least float keeps the mean finite.
    tiny = np.finfo(np.float64).tiny
    gain = float((np.log10(np.maximum(loss, tiny)) - np.log10(np.maximum(other, tiny))).mean())
    return Claim(
        f"{name}.PS.faster",
        f"{with_momentum} reduces the training loss faster than {without} on {CIFAR[name].title}: "
        f"lower at {MOST_EPOCHS:.0%} of the epochs or more",
        share >= MOST_EPOCHS,
        {"share of epochs": share, "mean difference of log10 loss": gain},
    )


def _earlier(name: str, runs: Runs) -> Claim:
    with_momentum, without = FAMILIES["PS"]
    reachable = min(best_accuracy(runs[method]) for method in (with_momentum, without))
    measured, holds = {}, False
    for share in (HIGH, *ALSO):
        epoch, other = (
            first_epoch(runs[method], share * reachable) for method in (with_momentum, without)
        )
        measured[f"{with_momentum} at {share:.0%}"] = epoch
        measured[f"{without} at {share:.0%}"] = other
        holds = epoch < other if share == HIGH else holds
    return Claim(
        f"{name}.PS.earlier",
        f"{with_momentum} reaches high test accuracy earlier than {without} on "
        f"{CIFAR[name].title}: first epoch with {HIGH:.0%} of the accuracy that both reach",
        holds,
        {**measured, "accuracy that both reach": reachable},
    )


def _comparable(name: str, runs: Runs) -> Claim:
    with_momentum, without = FAMILIES["ALS"]
    accuracy, other = (
        final_mean(runs[method], "test_accuracy") for method in (with_momentum, without)
    )
    return Claim(
        f"{name}.ALS.comparable",
        f"{with_momentum} attains a final test accuracy comparable to {without}'s on "
        f"{CIFAR[name].title}: within {100.0 * COMPARABLE:g} percentage points",
        abs(accuracy - other) <= COMPARABLE,
        {with_momentum: accuracy, without: other},
    )


def _below_fixed(name: str, method: str, runs: Runs) -> Claim:
    loss = final_mean(runs[method], "loss")
    fixed = {each: final_mean(runs[each], "loss") for each in FIXED}
    # A step that leaves no finite loss is no rival.
    best = min((value for value in fixed.values() if math.isfinite(value)), default=math.inf)
    return Claim(
        f"{name}.{method}.fixed",
        f"{method} ends with a training loss at or below that of every fixed step on "
        f"{CIFAR[name].title}",
        loss <= best,
        {method: loss, **fixed},
    )


def _without_momentum(name: str, runs: Runs) -> Claim:
    with_momentum, without = FAMILIES["ALS"]
    loss, other = (final_mean(runs[method], "loss") for method in (with_momentum, without))
    share = float((mean_loss(runs[without]) < mean_loss(runs[with_momentum])).mean())
    return Claim(
        f"{name}.ALS.lower_without",
        f"{without} ends with a lower training loss than {with_momentum} on {CIFAR[name].title}",
        other < loss,
        {with_momentum: loss, without: other, f"share of epochs with {without} lower": share},
    )
