r"""Figure 2: Appendix E's logistic regression on eight LIBSVM data sets.

What the paper leaves open, and our choice: minibatches of 128 are drawn independently with
replacement; n_b = ceil(n / 128); runs start at 0; there is no intercept; rows are scaled to unit
length, and an empty row stays empty; the larger label is +1; the lower bound of a row's loss is 0,
and log 2 for an empty row, which no parameters fit; the full training loss is recorded every 100
iterations.

With gamma_max = 1, as in the paper, every step of the four adaptive methods is at the cap: rows of
unit length give L <= 1/4, and then no rule asks for less than 1 (Lemma 2). So SHB-PS and SHB-ALS
are both heavy ball with step 1, and SPS and SLS are both SGD with step 1. The companion with
gamma_max = 100 shows the rules at work.
"""

import math
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure as Canvas

from heavystep import validation
from heavystep.arrays import Array
from heavystep.lab import plot
from heavystep.lab.data import LIBSVM, DataSet, missing_text, present
from heavystep.lab.figures import appendix_e
from heavystep.lab.figures.appendix_e import ADAPTIVE, FAMILIES, FIXED, MAX_STEP
from heavystep.lab.figures.figure import (
    PROJECT,
    Claim,
    Curve,
    Figure,
    Panel,
    Reproducible,
    Table,
    size,
)
from heavystep.lab.plot import mean_and_half_width
from heavystep.lab.simulation.configuration import Configuration, configure
from heavystep.lab.simulation.sweep import ProblemSpec, Results, Simulated, simulated
from heavystep.methods import method_of
from heavystep.records import Trajectories

BATCH, EVERY = 128, 100
COMPANION_MAX_STEP = 100.0
COLUMNS = 4
TINY = float(np.finfo(np.float64).tiny)
Runs = dict[str, Trajectories]


def methods(rows: int, max_step: float) -> dict[str, Configuration]:
    """All eight methods on a data set with this many rows; the adaptive ones have ``max_step``."""
    common: dict[str, Any] = {
        "lr": 1.0, "max_step": max_step, "scaling": appendix_e.SCALING,
        "steps_per_epoch": ceil(rows / BATCH), "max_trials": 10_000, "loss_eps": None,
    }  # fmt: skip
    found = {}
    for label, (name, options) in appendix_e.METHODS.items():
        has = {option.name for option in method_of(name).options}
        shared = {option: value for option, value in common.items() if option in has}
        found[label] = configure(name, **{**shared, **options})
    return found


def figure2(*, seeds: int = 5, iterations: int = 20_000, max_step: float = MAX_STEP) -> Figure:
    """The figure on the data sets that are here.

    Args:
        seeds: runs of each method.
        iterations: steps of each run.
        max_step: gamma_max of the adaptive methods; the paper's figure has 1.

    Raises:
        ValueError: ``max_step`` is out of range, or none of the data sets is here.
    """
    size("seeds", seeds, 2)
    size("iterations", iterations, 1000)
    validation.real("max_step", max_step, validation.POSITIVE)
    here = present(LIBSVM)
    if not here:
        raise ValueError(missing_text(LIBSVM))

    def panel(data_set: DataSet, family: str) -> Panel:
        name, curves = data_set.name, []
        known = methods(data_set.n, max_step)
        for method in (*FAMILIES[family], *FIXED) if name in here else ():
            cap = "" if method in FIXED else f", largest step {max_step:g}"
            run = Simulated(
                ProblemSpec("libsvm", name), known[method], seeds, iterations, BATCH, EVERY,
                label=f"{name}, {method}{cap}",
            )  # fmt: skip
            curves.append(Curve(method, run, "loss", style=list(known).index(method)))
        missing = "" if curves else f"not here:\nheavystep data fetch\n{name}"
        ylabel = f"training loss, {family} family"
        return Panel(f"{name}.{family}", data_set.title, ylabel, tuple(curves), missing, name)

    sets, companion = list(LIBSVM.values()), max_step != MAX_STEP
    rows = [sets[first : first + COLUMNS] for first in range(0, len(sets), COLUMNS)]
    panels = tuple(panel(each, family) for row in rows for family in FAMILIES for each in row)
    name = "figure2" + (f"_max_step_{max_step:g}" if companion else "")
    title = f"Logistic regression, largest step {max_step:g}"
    return Figure(name, title, panels, companion, missing_text(LIBSVM))


class Row(NamedTuple):
    """One method on one data set; numbers are means over seeds.

    Args:
        half_width: of the 95% confidence interval of the final loss.
        ratio_to_best: the final loss over the least one on the data set.
        area: under the curve drawn: the mean over the iterations of log10 of the mean loss.
        at_cap: the share of steps at gamma_max.
        held: the share of steps that the smooth reset held below gamma_max.
        trials: how many losses the line search evaluates in a step.
    """

    data_set: str
    method: str
    final_loss: float
    half_width: float
    ratio_to_best: float
    area: float
    at_cap: float
    held: float
    mean_step: float
    trials: float


def over_steps(result: Trajectories, values: Array) -> Array:
    """The mean over the steps of values recorded on the grid: (..., G) gives (...)."""
    mean: Array = np.average(values, axis=-1, weights=np.diff(result.k, prepend=0))
    return mean


def share(result: Trajectories, metric: str) -> float:
    """The mean of a metric over steps and seeds."""
    return float(over_steps(result, result.metrics[metric]).mean())


def final_loss(result: Trajectories) -> float:
    """The mean over seeds of the last loss recorded."""
    return float(result.metrics["loss"][:, -1].mean())


def area(result: Trajectories) -> float:
    """The mean over the iterations of log10 of the mean loss; 0 counts as the least float."""
    curve = np.log10(np.maximum(result.metrics["loss"].mean(axis=0), TINY))
    return float(over_steps(result, curve))


def ratio(loss: float, other: float) -> float:
    """The ratio of two losses; NaN where the other one is not positive."""
    return loss / other if other > 0.0 else math.nan


def table(figure: Figure, results: Results) -> Table:
    """The table: the file has all numbers, the terminal shows the final losses."""
    rows = []
    for data_set, runs in figure.by_data_set(results).items():
        best = float(np.min([final_loss(result) for result in runs.values()]))
        for name, result in runs.items():
            loss, half_width = map(float, mean_and_half_width(result.metrics["loss"][:, -1]))
            trials = float(result.metrics["trials"][:, -1].mean() / result.k[-1])
            capped, held, step = (share(result, each) for each in ("capped", "limited", "step"))
            rows.append(Row(data_set, name, loss, half_width, ratio(loss, best), area(result),
                            capped, held, step, trials))  # fmt: skip
    parts, lines = [], dict[str, list[str]]()
    for method in ADAPTIVE:
        of_method = [row for row in rows if row.method == method]
        cap, held = (np.mean([getattr(row, n) for row in of_method]) for n in ("at_cap", "held"))
        parts.append(f"{method} {cap:.0%} ({held:.0%})")
    for row in rows:  # the least loss has a star
        star = "*" if row.ratio_to_best == 1.0 else ""
        number = f"{row.final_loss:.4g}{star}\n±{row.half_width:.1g}"
        lines.setdefault(row.data_set, [row.data_set]).append(number)
    compact = [["data set", *dict.fromkeys(row.method for row in rows)], *lines.values()]
    note = f"steps at the cap (held by the smooth reset): {', '.join(parts)}"
    return Table(f"{figure.title}: final loss", rows, compact, note)


PRONOUNCED = ("mushrooms", "real-sim")
"""Data sets on which the paper calls the advantage of momentum particularly pronounced."""
SUBSTANTIALLY = 5.0  # the factor by which the loss must be lower there
CLOSE = 1.02  # the most that the final loss may be, in units of the loss with the best fixed step


def claims(figure: Figure, results: Results) -> list[Claim]:
    """All claims of Figure 2 for the data sets that are here; a companion has none."""
    if figure.companion:
        return []
    sets = figure.by_data_set(results)
    found = [claim for family in FAMILIES for claim in _generally(family, sets)]
    for name in PRONOUNCED:
        found += [_pronounced(each, name, sets[name]) for each in FAMILIES if name in sets]
    for name, runs in sets.items():
        found += [_close_to_the_best(method, name, runs) for method, _ in FAMILIES.values()]
    return found


def _generally(family: str, sets: dict[str, Runs]) -> list[Claim]:
    """How fast the loss falls, and where it ends. "Generally" means: on most data sets."""
    with_momentum, without = FAMILIES[family]
    gains, ends, apart = dict[str, float](), dict[str, float](), []
    for name, runs in sets.items():
        one, other = runs[with_momentum], runs[without]
        gains[name] = area(one) - area(other)
        ends[name] = ratio(final_loss(one), final_loss(other))
        last = (mean_and_half_width(each.metrics["loss"][:, -1]) for each in (one, other))
        (mean, width), (other_mean, other_width) = last
        if abs(mean - other_mean) > width + other_width:  # the intervals do not overlap
            apart.append(name)
    faster = [name for name, gain in gains.items() if gain < 0.0]
    lower = [name for name in apart if ends[name] < 1.0]
    higher = sum(end > 1.0 for end in ends.values())
    return [
        Claim(
            f"{family}.faster",
            f"{with_momentum} reduces the loss faster than {without} on most data sets: "
            "difference of the areas under the log10 curves < 0 on more than half of them",
            2 * len(faster) > len(sets),
            {**gains, "faster on": float(len(faster)), "of": float(len(sets))},
        ),
        Claim(
            f"{family}.lower",
            f"{with_momentum} ends below {without} on most data sets that decide: ratio of the "
            "final losses < 1 on more than half of those whose 95% intervals do not overlap; it "
            f"ends above on {higher} of all {len(sets)}",
            2 * len(lower) > len(apart),
            {**ends, "lower on": float(len(lower)), "of": float(len(apart))},
        ),
    ]


def _pronounced(family: str, name: str, runs: Runs) -> Claim:
    with_momentum, without = FAMILIES[family]
    factor = ratio(final_loss(runs[without]), final_loss(runs[with_momentum]))
    text = (
        f"{with_momentum} ends substantially below {without} on {name}: "
        f"by a factor of at least {SUBSTANTIALLY:g}"
    )
    return Claim(f"{name}.{family}", text, factor >= SUBSTANTIALLY, {"factor": factor})


def _close_to_the_best(method: str, name: str, runs: Runs) -> Claim:
    loss = final_loss(runs[method])
    ratios = {fixed: ratio(loss, final_loss(runs[fixed])) for fixed in FIXED}
    text = (
        f"{method} needs no tuning on {name}: final loss at most {CLOSE:g} times that of every "
        "fixed step of the sweep"
    )
    holds = all(value <= CLOSE for value in ratios.values())
    return Claim(f"{name}.{method}", text, holds, ratios, PROJECT)


NAMES = appendix_e.legend("upper rows", "lower rows")


def pictures(figure: Figure, results: Results) -> dict[str, Canvas]:
    """Mean training losses with their 95% confidence bands, two rows for four data sets."""
    rows = len(figure.panels) // COLUMNS
    canvas = Canvas(figsize=(7.2, 1.75 * rows + 0.5), layout="constrained")
    axes = canvas.subplots(rows, COLUMNS, squeeze=False)
    for place, (ax, panel) in enumerate(zip(axes.flat, figure.panels, strict=True)):
        row, column = divmod(place, COLUMNS)
        upper = row % len(FAMILIES) == 0
        if panel.curves:
            plot.mean_curves(ax, panel.curves, results, NAMES, appendix_e.LOOKS)
            ax.set_xlim(0, panel.curves[0].run.iterations)
            plot.thousands(ax.xaxis, "" if upper else "iterations")
        else:
            plot.say_missing(ax, panel.missing)
        ax.set_title(panel.title if upper else "")
        ax.set_ylabel(panel.ylabel if column == 0 else "")
    said = plot.bands_said(len(result.seeds) for result in results.values())
    plot.entitle(canvas, figure.headline(), *said)
    plot.legend_below(canvas, plot.named_lines(list(axes.flat)), columns=3)
    return {figure.name: canvas}


def both(
    *, seeds: int = 5, iterations: int = 20_000, max_step: float | None = None
) -> list[Figure]:
    """The paper's figure and the companion, or the one with this largest step."""
    steps = (MAX_STEP, COMPANION_MAX_STEP) if max_step is None else (max_step,)
    return [figure2(seeds=seeds, iterations=iterations, max_step=step) for step in steps]


REPRODUCIBLE = Reproducible(
    both, simulated, pictures, claims, quick={"seeds": 3, "iterations": 2_000}, table=table
)
