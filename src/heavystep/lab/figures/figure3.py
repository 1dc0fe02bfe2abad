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
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from heavystep import validation
from heavystep.lab import plot
from heavystep.lab.data import CIFAR
from heavystep.lab.figures.appendix_e import (
    ADAPTIVE,
    FAMILIES,
    FIXED,
    MAX_STEP,
    METHODS,
    PERCENT,
    by_data_set,
    options_of,
    picture,
)
from heavystep.lab.figures.figure import (
    Claim,
    Curve,
    Figure,
    Panel,
    Statement,
    Table,
    check_size,
)
from heavystep.lab.figures.measures import (
    best_accuracy,
    final,
    first_epoch,
    last_tenth,
    log_loss,
    mean_and_half_width,
)
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

FULL = Scale()  # the paper's
SMALL = Scale(network="small", batch_size=64, train_images=256, test_images=128)
QUICK = {"seeds": 2, "epochs": 3, "scale": SMALL}
NETWORKS = {"resnet18": "ResNet-18", "small": "a small network"}
Runs = dict[str, TrainedCurve]  # of a data set, by method
METRICS = {"loss": "training cross-entropy", "test_accuracy": "test accuracy [%]"}
"""The two metrics that are drawn for each family, with the names of their axes."""


def figures(
    *,
    seeds: int = 3,
    seed: Sequence[int] = (),
    epochs: int = 200,
    datasets: str = ",".join(CIFAR),
    methods: Sequence[str] = (),
    scale: Scale = FULL,
) -> list[Figure]:
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
    check_size("seeds", seeds, 1)
    check_size("epochs", epochs, 1)
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
                curves = tuple(Curve(each, runs[each], metric) for each in shown)
                panels.append(Panel(name, f"{title}, {family} family", ylabel, curves))
    titles = " and ".join(CIFAR[name].title for name in names)
    part = "" if scale == FULL else f" ({scale.train_images:,} images)"
    title = f"{NETWORKS.get(scale.network, scale.network)} on {titles}{part}"
    return [Figure("figure3", title, tuple(panels))]


def results(
    runs: Sequence[TrainingRuns],
    folder: Path,
    progress: Progress,
    *,
    device: str | None = None,
    no_train: bool = False,
) -> TrainedResults:
    """The curves of all runs, after what is missing was trained; or of those that are there."""
    if not no_train:
        train_missing(runs, folder, progress, the_device(device))
    found = curves(runs, folder, progress.note)
    if not found:
        raise ValueError(
            f"no run in {folder} reaches epoch {runs[0].epochs}: give fewer --epochs, or leave out "
            "--no-train to train them"
        )
    return found


def method_specs() -> dict[str, MethodSpec]:
    """All eight methods. The trainer adds n_b, which depends on the training set."""
    found = {}
    for label, (name, _) in METHODS.items():
        options = options_of(label, {"max_step": MAX_STEP})
        if method_of(name).rule.searches:
            # A known bound spares trials that cannot succeed, and changes no step.
            options["lower_bound"] = 0.0
        found[label] = MethodSpec(label, name, tuple(sorted(options.items())))
    return found


def table(figure: Figure, results: TrainedResults) -> Table:
    """The table: means over seeds, and half-widths of 95% intervals, which one seed does not have.

    ``at_cap`` is the share of steps at the largest that the cap and the smooth reset allowed,
    ``trials`` how many losses a line search evaluates, ``refused`` how many steps of a run were not
    taken, ``seconds`` the time of an epoch with its evaluation.
    """
    rows, lines = [], []
    for data_set, runs in by_data_set(figure, results).items():
        for method, result in runs.items():
            means = {name: float(values.mean()) for name, values in result.metrics.items()}
            (loss, width), (right, margin) = (
                map(float, mean_and_half_width(last_tenth(result.metrics[each])))
                for each in ("loss", "test_accuracy")
            )
            row = {
                "data_set": data_set, "method": method, "seeds": len(result.seeds),
                "epochs": len(result.k), "final_loss": loss, "loss_half_width": width,
                "final_accuracy": right, "accuracy_half_width": margin,
                "best_accuracy": best_accuracy(result), "mean_step": means["step"],
                "at_cap": means["capped"], "trials": means["trials"],
                "refused": float(result.metrics["refused"].sum(axis=1).mean()),
                "seconds": means["seconds"],
            }  # fmt: skip
            rows.append(row)
            lines.append([
                data_set, method, f"{row['seeds']} x {row['epochs']}",
                with_half_width(loss, width, ".4g"),
                with_half_width(100.0 * right, 100.0 * margin, ".2f"),
                f"{100.0 * best_accuracy(result):.2f}", f"{means['step']:.3g}",
                f"{means['capped']:.0%}", f"{means['trials']:.2f}", f"{row['refused']:g}",
                f"{means['seconds']:.1f}",
            ])  # fmt: skip
    heading = ["data set", "method", "runs", "loss", "accuracy %", "best %", "step", "at cap",
               "trials", "refused", "s/epoch"]  # fmt: skip
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


def share_lower(runs: Runs, one: str, other: str) -> float:
    """The share of the epochs at which the first method has the lower mean loss."""
    losses = [runs[each].metrics["loss"].mean(axis=0) for each in (one, other)]
    return float((losses[0] < losses[1]).mean())


def head_start(runs: Runs) -> dict[str, float]:
    """How often SHB-PS has a lower loss than SPS, and by how much."""
    gain = (log_loss(runs["SHB-PS"]) - log_loss(runs["SPS"])).mean()
    share = share_lower(runs, "SHB-PS", "SPS")
    return {"share of epochs": share, "mean difference of log10 loss": float(gain)}


def first_epochs(runs: Runs) -> dict[str, float]:
    """The first epochs with shares of the accuracy that SHB-PS and SPS both reach."""
    pair = ("SHB-PS", "SPS")
    reachable = min(best_accuracy(runs[each]) for each in pair)
    found = {f"{each} at {share:.0%}": first_epoch(runs[each], share * reachable)
             for share in (HIGH, *ALSO) for each in pair}  # fmt: skip
    return {**found, "accuracy that both reach": reachable}


def finals(metric: str, *labels: str) -> Callable[[Runs], dict[str, float]]:
    """A function that measures where these methods end."""
    return lambda runs: {label: final(runs[label], metric) for label in labels}


def below_fixed_steps(ends: dict[str, float]) -> bool:
    """True if the first loss is at most every other one that is finite."""
    own, *rivals = ends.values()
    return own <= min(filter(math.isfinite, rivals), default=math.inf)


STATEMENTS = (
    Statement(
        "PS.faster",
        "SHB-PS reduces the training loss faster than SPS on {title}: lower at "
        f"{MOST_EPOCHS:.0%} of the epochs or more",
        head_start,
        lambda found: found["share of epochs"] >= MOST_EPOCHS,
    ),
    Statement(
        "PS.earlier",
        "SHB-PS reaches high test accuracy earlier than SPS on {title}: first epoch with "
        f"{HIGH:.0%} of the accuracy that both reach",
        first_epochs,
        lambda found: found[f"SHB-PS at {HIGH:.0%}"] < found[f"SPS at {HIGH:.0%}"],
    ),
    Statement(
        "ALS.comparable",
        "SHB-ALS attains a final test accuracy comparable to SLS's on {title}: within "
        f"{100.0 * COMPARABLE:g} percentage points",
        finals("test_accuracy", "SHB-ALS", "SLS"),
        lambda found: abs(found["SHB-ALS"] - found["SLS"]) <= COMPARABLE,
    ),
    *(
        Statement(
            f"{method}.fixed",
            f"{method} ends with a training loss at or below that of every fixed step on {{title}}",
            finals("loss", method, *FIXED),
            below_fixed_steps,
        )
        for method in ("SHB-PS", "SHB-ALS")
    ),
    Statement(
        "ALS.lower_without",
        "SLS ends with a lower training loss than SHB-ALS on {title}",
        lambda runs: {
            **finals("loss", "SHB-ALS", "SLS")(runs),
            "share of epochs with SLS lower": share_lower(runs, "SLS", "SHB-ALS"),
        },
        lambda found: found["SLS"] < found["SHB-ALS"],
    ),
)


def claims(figure: Figure, results: TrainedResults) -> list[Claim]:
    """All claims, for each data set that has runs of every method."""
    whole = all(run.scale == FULL for run in figure.runs())
    return [
        replace(each.claim(name, runs, title=CIFAR[name].title), judged=whole)
        for name, runs in by_data_set(figure, results).items()
        if set(runs) == set(METHODS)
        for each in STATEMENTS
    ]


UNFINISHED: dict[str, Any] = {
    "color": "black", "linewidth": 0.4, "linestyle": "-", "zorder": 5,
    "marker": "o", "markersize": 1.8, "markevery": [-1],
}  # fmt: skip
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
    title = f"{figure.title}: {sizes_text(results)}"

    def draw(ax: Any, panel: Panel, place: int) -> None:
        ax.set_title(panel.title)
        if not panel.curves:
            plot.say_missing(ax, f"no runs on\n{CIFAR[panel.name].title}")
            return
        percent = panel.curves[0].metric in PERCENT
        lines = [line.get_ydata() for line in ax.get_lines()]
        for _, run, metric in panel.curves:
            result = results[run]
            for metrics in result.unfinished.values():
                begun = (100.0 if percent else 1.0) * metrics[metric]
                ax.plot(result.k[: len(begun)], begun, **UNFINISHED)
        if percent:  # the second half of every curve: the whole range would hide the differences
            middles = [line[len(line) // 2] for line in lines if np.isfinite(line[len(line) // 2])]
            highest = np.nanmax(np.concatenate(lines)) if middles else 0.0
            if highest > 0.0:
                margin = 0.06 * max(highest - min(middles), 0.1 * highest)
                ax.set_ylim(max(min(middles) - margin, 0.0), highest + margin)
        ax.set_ylabel(panel.ylabel)
        _epochs(ax, panel.curves[0].run.epochs)

    titles, places = [title], ("left", "right")
    if any(result.unfinished for result in results.values()):
        titles.append("thin: unfinished runs")
    return {
        figure.name: picture(figure, results, draw, titles, places, room=0.7),
        f"{figure.name}_steps": steps_picture(figure, results, title),
    }


def _epochs(ax: Any, epochs: int) -> None:
    """Label the horizontal axis with whole epochs."""
    ax.set_xlim(1 if epochs > 1 else 0, epochs)
    ax.xaxis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 5, 10]))
    ax.set_xlabel("epoch")
    plot.grid(ax)


def steps_picture(figure: Figure, results: TrainedResults, title: str) -> Canvas:
    """For each data set, the steps of the adaptive methods, their share at the cap, and trials."""
    runs, data_sets = by_data_set(figure, results), dict.fromkeys(p.name for p in figure.panels)
    canvas = Canvas(figsize=(7.2, 1.9 * len(data_sets) + 0.6), layout="constrained")
    axes = canvas.subplots(len(data_sets), len(STEPS), squeeze=False)
    for row, data_set in zip(axes, data_sets, strict=True):
        for ax, (metric, (ylabel, names)) in zip(row, STEPS.items(), strict=True):
            found = {n: runs[data_set][n] for n in names if n in runs.get(data_set, {})}
            ax.set_title(CIFAR[data_set].title)
            if not found:
                plot.say_missing(ax, f"no runs on\n{CIFAR[data_set].title}")
                continue
            ax.set_yscale("log" if metric == "step" else "linear")
            for name, result in found.items():
                mean = result.metrics[metric].mean(axis=0)
                values = {"step": plot.visible(mean), "capped": 100.0 * mean}.get(metric, mean)
                ax.plot(result.k, values, label=name, **STEP_LOOKS[name])
            if metric == "step":
                shown = np.concatenate([line.get_ydata() for line in ax.get_lines()])
                plot.log_limits(ax, shown, margin=1.4)
            elif metric == "capped":
                ax.set_ylim(-4.0, 104.0)
            ax.set_ylabel(ylabel)
            _epochs(ax, len(next(iter(found.values())).k))
    plot.entitle(canvas, title, "steps of the adaptive methods")
    plot.legend_below(canvas, plot.named_lines(list(axes.flat)), columns=len(ADAPTIVE))
    return canvas
