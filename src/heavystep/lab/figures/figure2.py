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

from math import ceil
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator, NullFormatter

from heavystep import validation
from heavystep.lab import plot
from heavystep.lab.data import LIBSVM, DataSet, missing_text, present
from heavystep.lab.figures.appendix_e import (
    ADAPTIVE,
    COLUMNS,
    FAMILIES,
    FIXED,
    MAX_STEP,
    METHODS,
    SCALING,
    by_data_set,
    options_of,
    picture,
)
from heavystep.lab.figures.figure import (
    PROJECT,
    Claim,
    Curve,
    Figure,
    Panel,
    Statement,
    Table,
    at_most,
    check_size,
)
from heavystep.lab.figures.measures import (
    area,
    final_loss,
    gains,
    mean_and_half_width,
    over_steps,
    ratio,
    ratios_at_the_end,
)
from heavystep.lab.simulation.configuration import Configuration, configure
from heavystep.lab.simulation.sweep import ProblemSpec, Results, Simulated, simulated

QUICK = {"seeds": 3, "iterations": 2_000}
BATCH, EVERY = 128, 100
COMPANION_MAX_STEP = 100.0
results = simulated


def methods(rows: int, max_step: float) -> dict[str, Configuration]:
    """All eight methods on a data set with this many rows; the adaptive ones have ``max_step``."""
    common: dict[str, Any] = {
        "lr": 1.0, "max_step": max_step, "scaling": SCALING,
        "steps_per_epoch": ceil(rows / BATCH), "max_trials": 10_000, "loss_eps": None,
    }  # fmt: skip
    known = {label: options_of(label, common) for label in METHODS}
    return {label: configure(METHODS[label][0], **options) for label, options in known.items()}


def figures(
    *, seeds: int = 5, iterations: int = 20_000, max_step: float | None = None
) -> list[Figure]:
    """The figure on the data sets that are here, and its companion.

    Args:
        seeds: runs of each method.
        iterations: steps of each run.
        max_step: gamma_max of the adaptive methods; None: the paper's 1, and 100 for the companion.

    Raises:
        ValueError: ``max_step`` is out of range, or none of the data sets is here.
    """
    check_size("seeds", seeds, 2)
    check_size("iterations", iterations, 1000)
    if max_step is not None:
        validation.real("max_step", max_step, validation.POSITIVE)
    if not (here := present(LIBSVM)):
        raise ValueError(missing_text(LIBSVM))
    for name in here:  # faults of data are told now
        ProblemSpec("libsvm", name).build()
    sets = list(LIBSVM.values())
    rows = [sets[first : first + COLUMNS] for first in range(0, len(sets), COLUMNS)]

    def panel(data_set: DataSet, family: str, most: float) -> Panel:
        name, curves = data_set.name, []
        known = methods(data_set.n, most)
        for method in (*FAMILIES[family], *FIXED) if name in here else ():
            cap = "" if method in FIXED else f", largest step {most:g}"
            run = Simulated(
                ProblemSpec("libsvm", name), known[method], seeds, iterations, BATCH, EVERY,
                label=f"{name}, {method}{cap}",
            )  # fmt: skip
            curves.append(Curve(method, run, "loss"))
        return Panel(name, data_set.title, f"training loss, {family} family", tuple(curves))

    def figure(most: float) -> Figure:
        panels = (panel(each, family, most) for row in rows for family in FAMILIES for each in row)
        companion = most != MAX_STEP
        name = "figure2" + (f"_max_step_{most:g}" if companion else "")
        title = f"Logistic regression, largest step {most:g}"
        return Figure(name, title, tuple(panels), companion, missing_text(LIBSVM))

    steps = (MAX_STEP, COMPANION_MAX_STEP) if max_step is None else (max_step,)
    return [figure(most) for most in steps]


def table(figure: Figure, results: Results) -> Table:
    """The table: the file has all numbers, the terminal shows the final losses.

    Numbers are means over seeds, and ``half_width`` is that of the 95% interval of the final loss.
    ``at_cap`` is the share of steps at gamma_max, ``held`` that of steps that the smooth reset held
    below it, and ``trials`` how many losses the line search evaluates in a step.
    """
    rows, lines = list[dict[str, Any]](), dict[str, list[str]]()
    for data_set, runs in by_data_set(figure, results).items():
        best = float(np.min([final_loss(result) for result in runs.values()]))
        for name, result in runs.items():
            loss, half_width = map(float, mean_and_half_width(result.metrics["loss"][:, -1]))
            at_cap, held, step = (float(over_steps(result, result.metrics[each]).mean())
                                  for each in ("capped", "limited", "step"))  # fmt: skip
            rows.append({
                "data_set": data_set, "method": name, "final_loss": loss, "half_width": half_width,
                "ratio_to_best": ratio(loss, best), "area": area(result),
                "at_cap": at_cap, "held": held, "mean_step": step,
                "trials": float(result.metrics["trials"][:, -1].mean() / result.k[-1]),
            })  # fmt: skip
            star = "*" if rows[-1]["ratio_to_best"] == 1.0 else ""
            line = lines.setdefault(data_set, [data_set])
            line.append(f"{loss:.4g}{star}\n±{half_width:.1g}")
    parts = []
    for method in ADAPTIVE:
        of_method = [row for row in rows if row["method"] == method]
        cap, held = (np.mean([row[name] for row in of_method]) for name in ("at_cap", "held"))
        parts.append(f"{method} {cap:.0%} ({held:.0%})")
    compact = [["data set", *dict.fromkeys(row["method"] for row in rows)], *lines.values()]
    note = f"steps at the cap (held by the smooth reset): {', '.join(parts)}"
    return Table(f"{figure.title}: final loss", rows, compact, note)


PRONOUNCED = ("mushrooms", "real-sim")
"""Data sets on which the paper calls the advantage of momentum particularly pronounced."""
SUBSTANTIALLY = 5.0  # the factor by which the loss must be lower there
CLOSE = 1.02  # the most that the final loss may be, in units of the loss with the best fixed step


FASTER = Statement(
    "faster",
    "{one} reduces the loss faster than {other} on most data sets: difference of the areas under "
    "the log10 curves < 0 on more than half of them",
    gains,
    lambda found: 2 * found["faster on"] > found["of"],
)
LOWER = Statement(
    "lower",
    "{one} ends below {other} on most data sets that decide: ratio of the final losses < 1 on more "
    "than half of those whose 95% intervals do not overlap; it ends above on {above} of all {all}",
    ratios_at_the_end,
    lambda found: 2 * found["lower on"] > found["of"],
)
"""The paper says "generally", which is taken to mean on most data sets."""


def claims(figure: Figure, results: Results) -> list[Claim]:
    """All claims of Figure 2 for the data sets that are here."""
    sets, found = by_data_set(figure, results), list[Claim]()
    for family, (one, other) in FAMILIES.items():
        pairs = {name: (runs[one], runs[other]) for name, runs in sets.items()}
        above = sum(ratio(*map(final_loss, pair)) > 1.0 for pair in pairs.values())
        words = {"one": one, "other": other, "above": str(above), "all": str(len(sets))}
        found += [each.claim(family, pairs, **words) for each in (FASTER, LOWER)]
    for name in (each for each in PRONOUNCED if each in sets):
        for family, pair in FAMILIES.items():
            found.append(substantially(name, family, *pair).claim(name, sets[name]))
    return found + [
        untuned(name, method).claim(name, runs)
        for name, runs in sets.items()
        for method, _ in FAMILIES.values()
    ]


def substantially(name: str, family: str, one: str, other: str) -> Statement:
    """The claim about a method and its counterpart without momentum on a data set."""
    return Statement(
        family,
        f"{one} ends substantially below {other} on {name}: by a factor of at least "
        f"{SUBSTANTIALLY:g}",
        lambda runs: {"factor": ratio(final_loss(runs[other]), final_loss(runs[one]))},
        lambda found: found["factor"] >= SUBSTANTIALLY,
    )


def untuned(name: str, method: str) -> Statement:
    """The claim about a method and every fixed step on a data set."""
    return Statement(
        method,
        f"{method} needs no tuning on {name}: final loss at most {CLOSE:g} times that of every "
        "fixed step of the sweep",
        lambda runs: {
            fixed: ratio(final_loss(runs[method]), final_loss(runs[fixed])) for fixed in FIXED
        },
        at_most(CLOSE),
        PROJECT,
    )


def pictures(figure: Figure, results: Results) -> dict[str, Canvas]:
    """Mean training losses with their 95% confidence bands, two rows for four data sets."""

    def draw(ax: Any, panel: Panel, place: int) -> None:
        row, column = divmod(place, COLUMNS)
        upper = row % len(FAMILIES) == 0
        if panel.curves:
            ax.set_xlim(0, panel.curves[0].run.iterations)
            ax.xaxis.set_major_locator(MaxNLocator(4))
            ax.xaxis.set_major_formatter(NullFormatter())
            if not upper:
                ax.xaxis.set_major_formatter(lambda value, place: f"{value / 1000:g}")
                ax.set_xlabel("iterations / 1000")
        else:
            plot.say_missing(ax, f"not here:\nheavystep data fetch\n{panel.name}")
        ax.set_title(panel.title if upper else "")
        ax.set_ylabel(panel.ylabel if column == 0 else "")

    titles, places = [figure.headline()], ("upper rows", "lower rows")
    return {figure.name: picture(figure, results, draw, titles, places, room=0.5)}
