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

from heavystep import validation
from heavystep.arrays import Array
from heavystep.lab.data import LIBSVM, DataSet, missing_text, present
from heavystep.lab.figures.appendix_e import ADAPTIVE, FAMILIES, FIXED, MAX_STEP, METHODS, SCALING
from heavystep.lab.figures.figure import (
    PROJECT,
    Claim,
    Curve,
    Figure,
    Panel,
    Table,
    csv_text,
    markdown_text,
)
from heavystep.lab.figures.simulated import Results
from heavystep.lab.plot import mean_and_half_width
from heavystep.lab.simulation.configuration import Configuration, configure
from heavystep.lab.simulation.sweep import ProblemSpec, Simulated
from heavystep.methods import method_of
from heavystep.records import Trajectories

BATCH, EVERY = 128, 100
COMPANION_MAX_STEP = 100.0
COLUMNS = 4


def methods(rows: int, max_step: float) -> dict[str, Configuration]:
    """All eight methods on a data set with this many rows; the adaptive ones have ``max_step``."""
    common: dict[str, Any] = {
        "lr": 1.0,
        "max_step": max_step,
        "scaling": SCALING,
        "steps_per_epoch": ceil(rows / BATCH),
        "max_trials": 10_000,
        "loss_eps": None,
    }
    found = {}
    for label, (name, options) in METHODS.items():
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
    validation.real("max_step", max_step, validation.POSITIVE)
    here = present(LIBSVM)
    if not here:
        raise ValueError(missing_text(LIBSVM))
    sets, panels = list(LIBSVM.values()), []
    for first in range(0, len(sets), COLUMNS):
        for family in FAMILIES:
            for data_set in sets[first : first + COLUMNS]:
                curves = _curves(data_set, family, seeds, iterations, max_step)
                panels.append(_panel(data_set, family, curves if data_set.name in here else ()))
    companion = max_step != MAX_STEP
    return Figure(
        "figure2" + (f"_max_step_{max_step:g}" if companion else ""),
        f"Logistic regression, largest step {max_step:g}",
        tuple(panels),
        companion,
        missing_text(LIBSVM),
    )


def _curves(
    data_set: DataSet, family: str, seeds: int, iterations: int, max_step: float
) -> tuple[Curve, ...]:
    problem, known = ProblemSpec("libsvm", data_set.name), methods(data_set.n, max_step)
    curves = []
    for name in (*FAMILIES[family], *FIXED):
        cap = f", largest step {max_step:g}" if name not in FIXED else ""
        label = f"{data_set.name}, {name}{cap}"
        run = Simulated(problem, known[name], seeds, iterations, BATCH, EVERY, label=label)
        curves.append(Curve(name, run, "loss", style=list(known).index(name)))
    return tuple(curves)


def _panel(data_set: DataSet, family: str, curves: tuple[Curve, ...]) -> Panel:
    missing = "" if curves else f"not here:\nheavystep data fetch\n{data_set.name}"
    ylabel = f"training loss, {family} family"
    return Panel(
        f"{data_set.name}.{family}", data_set.title, ylabel, curves, missing, data_set.name
    )


TINY = float(np.finfo(np.float64).tiny)


class Row(NamedTuple):
    """One method on one data set; numbers are means over seeds."""

    data_set: str
    method: str
    final_loss: float
    half_width: float
    """Half the width of the 95% confidence interval of the final loss."""
    ratio_to_best: float
    """The final loss over the least one on the data set."""
    area: float
    """The area under the curve drawn: the mean over the iterations of log10 of the mean loss."""
    at_cap: float
    """The share of steps at gamma_max."""
    held: float
    """The share of steps that the smooth reset held below gamma_max."""
    mean_step: float
    trials: float
    """How many losses the line search evaluates in a step."""


def over_steps(result: Trajectories, values: Array) -> Array:
    """The mean over the steps of values recorded on the grid: (..., G) gives (...)."""
    mean: Array = np.average(values, axis=-1, weights=np.diff(result.k, prepend=0))
    return mean


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


def _rows(figure: Figure, results: Results) -> list[Row]:
    """All rows, data set by data set."""
    rows = []
    for data_set, runs in figure.by_data_set(results).items():
        best = float(np.min([final_loss(result) for result in runs.values()]))
        rows += [_row(data_set, name, result, best) for name, result in runs.items()]
    return rows


def _row(data_set: str, method: str, result: Trajectories, best: float) -> Row:
    loss, half_width = mean_and_half_width(result.metrics["loss"][:, -1])
    share = {
        name: float(over_steps(result, result.metrics[name]).mean())
        for name in ("capped", "limited", "step")
    }
    return Row(
        data_set,
        method,
        float(loss),
        float(half_width),
        ratio(float(loss), best),
        area(result),
        share["capped"],
        share["limited"],
        share["step"],
        float(result.metrics["trials"][:, -1].mean() / result.k[-1]),
    )


def table(figure: Figure, results: Results) -> Table:
    """The table: files have all numbers, the terminal shows the final losses."""
    rows = _rows(figure, results)
    title = f"{figure.title}: final loss"
    return Table(title, csv_text(rows), markdown_text(rows, texts=2), _compact(rows), _shares(rows))


def _shares(rows: list[Row]) -> str:
    """Say how the adaptive methods chose their steps, over all data sets."""
    parts = []
    for method in ADAPTIVE:
        of_method = [row for row in rows if row.method == method]
        cap, held = (
            np.mean([getattr(row, name) for row in of_method]) for name in ("at_cap", "held")
        )
        parts.append(f"{method} {cap:.0%} ({held:.0%})")
    return f"steps at the cap (held by the smooth reset): {', '.join(parts)}"


def _compact(rows: list[Row]) -> list[list[str]]:
    """A line for each data set, a column for each method; the least loss has a star."""
    lines: dict[str, list[str]] = {}
    for row in rows:
        star = "*" if row.ratio_to_best == 1.0 else ""
        number = f"{row.final_loss:.4g}{star}\n±{row.half_width:.1g}"
        lines.setdefault(row.data_set, [row.data_set]).append(number)
    return [["data set", *dict.fromkeys(row.method for row in rows)], *lines.values()]


PRONOUNCED = ("mushrooms", "real-sim")
"""Data sets on which the paper calls the advantage of momentum particularly pronounced."""
SUBSTANTIALLY = 5.0
"""The factor by which the loss must be lower there."""
CLOSE = 1.02
"""The most that the final loss may be, in units of the loss with the best fixed step."""

Runs = dict[str, Trajectories]


def claims(figure: Figure, results: Results) -> list[Claim]:
    """All claims of Figure 2 for the data sets that are here; a companion has none."""
    if figure.companion:
        return []
    sets = figure.by_data_set(results)
    found = [claim for family in FAMILIES for claim in _generally(family, sets)]
    found += [
        _pronounced(family, name, sets[name])
        for name in PRONOUNCED
        if name in sets
        for family in FAMILIES
    ]
    found += [
        _close_to_the_best(with_momentum, name, runs)
        for name, runs in sets.items()
        for with_momentum, _ in FAMILIES.values()
    ]
    return found


def _generally(family: str, sets: dict[str, Runs]) -> list[Claim]:
    """How fast the loss falls, and where it ends. "Generally" means: on most data sets."""
    with_momentum, without = FAMILIES[family]
    gains = {name: area(runs[with_momentum]) - area(runs[without]) for name, runs in sets.items()}
    ends = {
        name: ratio(final_loss(runs[with_momentum]), final_loss(runs[without]))
        for name, runs in sets.items()
    }
    apart = [name for name, runs in sets.items() if _apart(runs[with_momentum], runs[without])]
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


def _apart(one: Trajectories, other: Trajectories) -> bool:
    """Whether the confidence intervals of the final losses do not overlap."""
    (mean, width), (other_mean, other_width) = (
        mean_and_half_width(result.metrics["loss"][:, -1]) for result in (one, other)
    )
    return bool(abs(mean - other_mean) > width + other_width)


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
