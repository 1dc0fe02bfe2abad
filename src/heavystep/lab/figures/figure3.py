r"""Figure 3: Appendix E's ResNet-18 on CIFAR-10 and CIFAR-100.

What the paper leaves open, and our choice: the network has a 3x3 stem and no max-pool; images are
scaled by the mean and the standard deviation of each colour over the training set, and cropped
from a black border before that; there is no weight decay; an epoch is a permutation of the
training images without the last incomplete minibatch, and n_b counts the others; the training
loss of an epoch is the mean of its minibatch losses, each before the step taken on it; the lower
bound of a loss is 0. On a GPU the network computes in bfloat16 (autocast) and parameters, losses
and steps are float32; on a CPU all is float32.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from heavystep import validation
from heavystep.arrays import Array
from heavystep.lab.data import CIFAR
from heavystep.lab.figures.appendix_e import FAMILIES, FIXED, MAX_STEP, METHODS
from heavystep.lab.figures.figure import Claim, Curve, Figure, Panel, Table, csv_text, markdown_text
from heavystep.lab.plot import mean_and_half_width
from heavystep.lab.training.runs import (
    MethodSpec,
    Scale,
    TrainedCurve,
    TrainedResults,
    TrainingRuns,
)
from heavystep.methods import method_of

PAPER = Scale()
QUICK = Scale(network="small", batch_size=64, train_images=256, test_images=128)
NETWORKS = {"resnet18": "ResNet-18", "small": "a small network"}
METRICS = {"loss": "training cross-entropy", "test_accuracy": "test accuracy [%]"}
"""The two metrics that are drawn for each family, with the names of their axes."""


def figure3(
    *,
    seeds: int | tuple[int, ...] = 3,
    epochs: int | Mapping[str, int] = 200,
    data_sets: Sequence[str] = tuple(CIFAR),
    scale: Scale = PAPER,
) -> Figure:
    """A row for each data set: loss and accuracy of the PS family, then of the ALS family.

    Args:
        seeds: the number of runs of each method, or the seeds of these runs.
        epochs: the length of each run, or one length for each data set.
        data_sets: ``"cifar10"``, ``"cifar100"`` or both.
        scale: what is trained; the paper's is the default.

    Raises:
        ValueError: there is no such data set.
    """
    for name in data_sets:
        validation.choice("data set", name, CIFAR)
    panels: list[Panel] = []
    for name in data_sets:
        length = epochs if isinstance(epochs, int) else epochs[name]
        runs = {
            method.name: TrainingRuns(name, method, scale, seeds, length)
            for method in methods().values()
        }
        panels += [_panel(runs, name, family, metric) for family in FAMILIES for metric in METRICS]
    names = " and ".join(CIFAR[name].title for name in data_sets)
    part = "" if scale == PAPER else f" ({scale.train_images:,} images)"
    title = f"{NETWORKS.get(scale.network, scale.network)} on {names}{part}"
    return Figure("figure3", title, tuple(panels), reduced=scale != PAPER)


def _panel(runs: dict[str, TrainingRuns], data_set: str, family: str, metric: str) -> Panel:
    curves = tuple(
        Curve(name, runs[name], metric, style=list(runs).index(name))
        for name in (*FAMILIES[family], *FIXED)
    )
    title = f"{CIFAR[data_set].title}, {family} family"
    missing = f"no runs on\n{CIFAR[data_set].title}"
    return Panel(f"{data_set}.{family}.{metric}", title, METRICS[metric], curves, missing, data_set)


def methods() -> dict[str, MethodSpec]:
    """All eight methods. The trainer adds n_b, which depends on the training set."""
    found = {}
    for label, (name, constants) in METHODS.items():
        method, options = method_of(name), dict(constants)
        if "max_step" in {option.name for option in method.options}:
            options["max_step"] = MAX_STEP
        if method.rule.searches:
            # A known bound spares trials that cannot succeed, and changes no step.
            options["lower_bound"] = 0.0
        found[label] = MethodSpec(label, name, tuple(sorted(options.items())))
    return found


LAST = 10
"""Final numbers are means over the last tenth of the epochs, because one epoch alone is noisy."""


class Row(NamedTuple):
    """One method on one data set; numbers are means over seeds."""

    data_set: str
    method: str
    seeds: int
    epochs: int
    final_loss: float
    """The training cross-entropy, a mean over the last tenth of the epochs."""
    loss_half_width: float
    """Half the width of its 95% confidence interval; NaN for one seed."""
    final_accuracy: float
    """The test accuracy, a mean over the last tenth of the epochs."""
    accuracy_half_width: float
    best_accuracy: float
    """The largest mean over seeds among the epochs."""
    mean_step: float
    at_cap: float
    """The share of steps at the largest that the cap and the smooth reset allowed."""
    trials: float
    """How many losses the line search evaluates in a step."""
    refused: float
    """How many steps of a run were not taken."""
    seconds: float
    """The wall time of an epoch, evaluation included."""


def final(values: Array) -> Array:
    """The mean over the last tenth of the epochs, at least one: (seeds, epochs) gives (seeds,).

    >>> import numpy as np
    >>> final(np.arange(25.0)[None]).tolist()
    [23.5]
    """
    mean: Array = values[:, -max(values.shape[1] // LAST, 1) :].mean(axis=1)
    return mean


def best_accuracy(result: TrainedCurve) -> float:
    """The largest over the epochs of the mean test accuracy."""
    return float(result.metrics["test_accuracy"].mean(axis=0).max())


def rows_of(figure: Figure, results: TrainedResults) -> list[Row]:
    """All rows, data set by data set."""
    return [
        _row(data_set, name, result)
        for data_set, runs in figure.by_data_set(results).items()
        for name, result in runs.items()
    ]


def _row(data_set: str, method: str, result: TrainedCurve) -> Row:
    metrics = result.metrics
    loss, loss_half_width = mean_and_half_width(final(metrics["loss"]))
    accuracy, accuracy_half_width = mean_and_half_width(final(metrics["test_accuracy"]))
    return Row(
        data_set,
        method,
        len(result.seeds),
        len(result.k),
        float(loss),
        float(loss_half_width),
        float(accuracy),
        float(accuracy_half_width),
        best_accuracy(result),
        float(metrics["step"].mean()),
        float(metrics["capped"].mean()),
        float(metrics["trials"].mean()),
        float(metrics["refused"].sum(axis=1).mean()),
        float(metrics["seconds"].mean()),
    )


def table(figure: Figure, results: TrainedResults) -> Table:
    """The table: files have all numbers, the terminal shows those that fit."""
    rows = rows_of(figure, results)
    heading = ["data set", "method", "runs", "loss", "accuracy %", "best %", "step", "at cap"]
    heading += ["trials", "refused", "s/epoch"]
    compact = [heading, *(_line(row) for row in rows)]
    markdown = markdown_text(rows, texts=2)
    return Table(figure.title, csv_text(rows), markdown, compact, where(results))


def _line(row: Row) -> list[str]:
    return [
        row.data_set,
        row.method,
        f"{row.seeds} x {row.epochs}",
        with_half_width(row.final_loss, row.loss_half_width, ".4g"),
        with_half_width(100.0 * row.final_accuracy, 100.0 * row.accuracy_half_width, ".2f"),
        f"{100.0 * row.best_accuracy:.2f}",
        f"{row.mean_step:.3g}",
        f"{row.at_cap:.0%}",
        f"{row.trials:.2f}",
        f"{row.refused:g}",
        f"{row.seconds:.1f}",
    ]


def with_half_width(value: float, half_width: float, form: str) -> str:
    """A mean with the half-width of its interval, which one seed does not have.

    >>> with_half_width(91.234, 0.25, ".2f"), with_half_width(91.234, float("nan"), ".2f")
    ('91.23 ±0.25', '91.23')
    """
    known = half_width == half_width
    return f"{value:{form}}" + (f" ±{half_width:.2g}" if known else "")


def where(results: TrainedResults) -> str:
    """Say on which machines the epochs were made; the one with the most comes first."""
    epochs: dict[str, int] = {}
    for result in results.values():
        for stretch in result.stretches:
            made = f"{stretch.device}, {stretch.precision}, {stretch.versions}"
            made += ", compiled" if stretch.compiled else ""
            last = min(stretch.last, len(result.k))
            epochs[made] = epochs.get(made, 0) + last - stretch.first + 1
    parts = sorted(epochs.items(), key=lambda item: (-item[1], item[0]))
    return "made on " + "; ".join(f"{made}: {number:,} epochs" for made, number in parts)


MOST_EPOCHS = 0.9
"""A loss falls faster if it is lower at this share of the epochs. It need not be lower at all of
them, because curves start together and are noisy."""
HIGH, ALSO = 0.95, (0.9, 0.98)
"""A high accuracy is this share of the accuracy that both methods reach. The first share decides
the claim; the others are reported."""
COMPARABLE = 0.015
"""Test accuracies are comparable if they differ by at most this, which is about what seeds do."""

Runs = dict[str, TrainedCurve]


def claims(figure: Figure, results: TrainedResults) -> list[Claim]:
    """All claims, for each data set that has runs of every method."""
    found = []
    for name, runs in figure.by_data_set(results).items():
        if set(runs) == set(METHODS):
            found += [
                _faster(name, runs),
                _earlier(name, runs),
                _comparable(name, runs),
                *(_below_fixed(name, pair[0], runs) for pair in FAMILIES.values()),
                _without_momentum(name, runs),
            ]
    return [replace(claim, judged=not figure.reduced) for claim in found]


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
