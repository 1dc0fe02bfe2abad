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
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from heavystep import validation
from heavystep.arrays import Array
from heavystep.lab import plot
from heavystep.lab.data import CIFAR
from heavystep.lab.figures import appendix_e
from heavystep.lab.figures.appendix_e import ADAPTIVE, FAMILIES, FIXED, MAX_STEP, METHODS
from heavystep.lab.figures.figure import Claim, Curve, Figure, Panel, Reproducible, Table, size
from heavystep.lab.plot import mean_and_half_width
from heavystep.lab.sweeps import Progress
from heavystep.lab.training.runs import (
    MethodSpec,
    Scale,
    TrainedCurve,
    TrainedResults,
    TrainingRuns,
    curves,
    sizes_text,
    train_missing,
)
from heavystep.lab.training.trainer import the_device
from heavystep.methods import method_of

PAPER = Scale()
QUICK = Scale(network="small", batch_size=64, train_images=256, test_images=128)
NETWORKS = {"resnet18": "ResNet-18", "small": "a small network"}
METRICS = {"loss": "training cross-entropy", "test_accuracy": "test accuracy [%]"}
"""The two metrics that are drawn for each family, with the names of their axes."""


def figure3(
    *,
    seeds: int = 3,
    seed: Sequence[int] = (),
    epochs: int = 200,
    datasets: str = ",".join(CIFAR),
    methods: Sequence[str] = (),
    scale: Scale = PAPER,
) -> Figure:
    """A row for each data set: loss and accuracy of the PS family, then of the ALS family.

    Args:
        seeds: the number of runs of each method.
        seed: in place of it, the seeds of these runs.
        epochs: the length of each run.
        datasets: ``"cifar10"``, ``"cifar100"``, or both with a comma.
        methods: those that are shown; none: all.
        scale: what is trained; the paper's is the default.

    Raises:
        ValueError: there is no such data set or method, or a number is out of range.
    """
    size("seeds", seeds, 1)
    size("epochs", epochs, 1)
    for each in seed:
        validation.integer("seed", each, least=0)
    for name in methods:
        validation.choice("methods", name, tuple(METHODS))
    which, names = tuple(dict.fromkeys(seed)) or tuple(range(seeds)), list[str]()
    for name in dict.fromkeys(each.strip() for each in datasets.split(",")):
        validation.choice("datasets", name, CIFAR)
        names.append(name)
    panels: list[Panel] = []
    for name in names:
        title, known = CIFAR[name].title, method_specs()
        runs = {each: TrainingRuns(name, known[each], scale, which, epochs) for each in known}
        for family, pair in FAMILIES.items():
            shown = [each for each in (*pair, *FIXED) if each in (methods or known)]
            for metric, ylabel in METRICS.items():
                curves = tuple(
                    Curve(method, runs[method], metric, style=list(runs).index(method))
                    for method in shown
                )
                place, missing = f"{name}.{family}.{metric}", f"no runs on\n{title}"
                panels.append(
                    Panel(place, f"{title}, {family} family", ylabel, curves, missing, name)
                )
    titles = " and ".join(CIFAR[name].title for name in names)
    part = "" if scale == PAPER else f" ({scale.train_images:,} images)"
    title = f"{NETWORKS.get(scale.network, scale.network)} on {titles}{part}"
    return Figure("figure3", title, tuple(panels))


def trained(
    runs: dict[str, TrainingRuns],
    folder: Path,
    progress: Progress,
    *,
    device: str | None = None,
    no_train: bool = False,
) -> TrainedResults:
    """The curves of all runs, after what is missing was trained; or of those that are there."""
    if not no_train:
        train_missing(runs.values(), folder, progress, the_device(device))
    found = curves(runs, folder, progress.note)
    if not found:
        epochs = next(iter(runs.values())).epochs
        raise ValueError(
            f"no run in {folder} reaches epoch {epochs}: give fewer --epochs, or leave out "
            "--no-train to train them"
        )
    return found


def method_specs() -> dict[str, MethodSpec]:
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
    """One method on one data set; numbers are means over seeds.

    Args:
        final_loss: the training cross-entropy over the last tenth of the epochs.
        loss_half_width: of its 95% confidence interval; NaN for one seed.
        final_accuracy: the test accuracy over the last tenth of the epochs.
        best_accuracy: the largest mean over seeds among the epochs.
        at_cap: the share of steps at the largest that the cap and the smooth reset allowed.
        trials: how many losses the line search evaluates in a step.
        refused: how many steps of a run were not taken.
        seconds: the wall time of an epoch, evaluation included.
    """

    data_set: str
    method: str
    seeds: int
    epochs: int
    final_loss: float
    loss_half_width: float
    final_accuracy: float
    accuracy_half_width: float
    best_accuracy: float
    mean_step: float
    at_cap: float
    trials: float
    refused: float
    seconds: float


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


def table(figure: Figure, results: TrainedResults) -> Table:
    """The table: the file has all numbers, the terminal shows those that fit."""
    rows = []
    for data_set, runs in figure.by_data_set(results).items():
        for method, result in runs.items():
            metrics = result.metrics
            finals = (final(metrics[each]) for each in ("loss", "test_accuracy"))
            intervals = [float(part) for each in finals for part in mean_and_half_width(each)]
            means = {name: float(values.mean()) for name, values in metrics.items()}
            refused = float(metrics["refused"].sum(axis=1).mean())
            numbers = [*intervals, best_accuracy(result), means["step"], means["capped"],
                       means["trials"], refused, means["seconds"]]  # fmt: skip
            counts = len(result.seeds), len(result.k)
            rows.append(Row._make([data_set, method, *counts, *numbers]))
    heading = ["data set", "method", "runs", "loss", "accuracy %", "best %", "step", "at cap",
               "trials", "refused", "s/epoch"]  # fmt: skip
    lines = [
        [row.data_set, row.method, f"{row.seeds} x {row.epochs}",
         with_half_width(row.final_loss, row.loss_half_width, ".4g"),
         with_half_width(100.0 * row.final_accuracy, 100.0 * row.accuracy_half_width, ".2f"),
         f"{100.0 * row.best_accuracy:.2f}", f"{row.mean_step:.3g}", f"{row.at_cap:.0%}",
         f"{row.trials:.2f}", f"{row.refused:g}", f"{row.seconds:.1f}"]
        for row in rows
    ]  # fmt: skip
    return Table(figure.title, rows, [heading, *lines])


def with_half_width(value: float, half_width: float, form: str) -> str:
    """A mean with the half-width of its interval, which one seed does not have.

    >>> with_half_width(91.234, 0.25, ".2f"), with_half_width(91.234, float("nan"), ".2f")
    ('91.23 ±0.25', '91.23')
    """
    known = half_width == half_width
    return f"{value:{form}}" + (f" ±{half_width:.2g}" if known else "")


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
    whole = all(run.scale == PAPER for run in figure.runs().values())
    return [replace(claim, judged=whole) for claim in found]


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


UNFINISHED: dict[str, Any] = {
    "color": "black", "linewidth": 0.4, "linestyle": "-", "zorder": 5,
    "marker": "o", "markersize": 1.8, "markevery": [-1],
}  # fmt: skip
COLUMNS = len(FAMILIES) * len(METRICS)
NAMES = appendix_e.legend("left", "right")
STEPS = {
    "step": (r"mean step $\gamma_k$", ADAPTIVE),
    "capped": ("steps at the upper limit [%]", ADAPTIVE),
    "trials": ("losses a line search", FAMILIES["ALS"]),
}
"""The columns of the second picture: the name of the axis, and the methods that are drawn."""
# Where lines lie on each other, the wide ones below still show.
STEP_LOOKS: dict[str, dict[str, Any]] = {
    "SHB-PS": {"color": "#D55E00", "linestyle": "-", "linewidth": 2.2},
    "SPS": {"color": "#F0C000", "linestyle": "-", "linewidth": 1.0},
    "SHB-ALS": {"color": "#0072B2", "linestyle": (0, (4, 2)), "linewidth": 1.5},
    "SLS": {"color": "#000000", "linestyle": (0, (1, 2)), "linewidth": 1.2},
}


def pictures(figure: Figure, results: TrainedResults) -> dict[str, Canvas]:
    """The pictures of losses and accuracies and of the steps, by the names of their files."""
    return {
        figure.name: curves_picture(figure, results),
        f"{figure.name}_steps": steps_picture(figure, results),
    }


def curves_picture(figure: Figure, results: TrainedResults) -> Canvas:
    """A row of panels for each data set, with means and their 95% confidence bands."""
    rows = len(figure.panels) // COLUMNS
    canvas = Canvas(figsize=(7.2, 1.75 * rows + 0.7), layout="constrained")
    axes = canvas.subplots(rows, COLUMNS, squeeze=False)
    for ax, panel in zip(axes.flat, figure.panels, strict=True):
        ax.set_title(panel.title)
        if panel.curves:
            _panel(ax, panel, results)
        else:
            plot.say_missing(ax, panel.missing)
    said = plot.bands_said(len(result.seeds) for result in results.values())
    if any(result.unfinished for result in results.values()):
        said.append("thin: unfinished runs")
    plot.entitle(canvas, f"{figure.title}: {sizes_text(results)}", *said)
    plot.legend_below(canvas, plot.named_lines(list(axes.flat)), columns=3)
    return canvas


def _panel(ax: Any, panel: Panel, results: TrainedResults) -> None:
    percent = panel.curves[0].metric == "test_accuracy"
    lines = plot.mean_curves(ax, panel.curves, results, NAMES, appendix_e.LOOKS, percent=percent)
    for curve in panel.curves:
        result = results[curve.run.key()]
        for metrics in result.unfinished.values():
            begun = (100.0 if percent else 1.0) * metrics[curve.metric]
            ax.plot(result.k[: len(begun)], begun, **UNFINISHED)
    if percent:  # the second half of every curve: the whole range would hide the differences
        highest = max((np.nanmax(line) for line in lines if np.isfinite(line).any()), default=0.0)
        middles = [line[len(line) // 2] for line in lines if np.isfinite(line[len(line) // 2])]
        if middles and highest > 0.0:
            margin = 0.06 * max(highest - min(middles), 0.1 * highest)
            ax.set_ylim(max(min(middles) - margin, 0.0), highest + margin)
    ax.set_ylabel(panel.ylabel)
    _epochs(ax, panel.curves[0].run.epochs)


def _epochs(ax: Any, epochs: int) -> None:
    """Label the horizontal axis with whole epochs."""
    ax.set_xlim(1 if epochs > 1 else 0, epochs)
    ax.xaxis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 5, 10]))
    ax.set_xlabel("epoch")
    plot.grid(ax)


def steps_picture(figure: Figure, results: TrainedResults) -> Canvas:
    """For each data set, the steps of the adaptive methods, their share at the cap, and trials."""
    panels, runs = figure.panels[::COLUMNS], figure.by_data_set(results)
    canvas = Canvas(figsize=(7.2, 1.9 * len(panels) + 0.6), layout="constrained")
    axes = canvas.subplots(len(panels), len(STEPS), squeeze=False)
    for row, panel in zip(axes, panels, strict=True):
        found = runs.get(panel.data_set, {})
        for ax, (metric, (ylabel, names)) in zip(row, STEPS.items(), strict=True):
            ax.set_title(CIFAR[panel.data_set].title)
            if not any(name in found for name in names):
                plot.say_missing(ax, panel.missing)
                continue
            ax.set_yscale("log" if metric == "step" else "linear")
            means = {n: found[n].metrics[metric].mean(axis=0) for n in names if n in found}
            for name, mean in means.items():
                values = {"step": plot.visible(mean), "capped": 100.0 * mean}.get(metric, mean)
                ax.plot(found[name].k, values, label=name, **STEP_LOOKS[name])
            if metric == "step":
                shown = np.concatenate([plot.visible(mean) for mean in means.values()])
                plot.log_limits(ax, shown, margin=1.4)
            elif metric == "capped":
                ax.set_ylim(-4.0, 104.0)
            ax.set_ylabel(ylabel)
            _epochs(ax, len(found[next(iter(means))].k))
    plot.entitle(canvas, f"{figure.title}: {sizes_text(results)}", "steps of the adaptive methods")
    plot.legend_below(canvas, plot.named_lines(list(axes.flat)), columns=len(ADAPTIVE))
    return canvas


REPRODUCIBLE = Reproducible(
    figure3, trained, pictures, claims, quick={"seeds": 2, "epochs": 3, "scale": QUICK}, table=table
)
