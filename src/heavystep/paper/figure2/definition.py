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

from heavystep import validation
from heavystep.data.catalogue import CATALOGUE, DataSet
from heavystep.data.locate import missing_text, present
from heavystep.paper.appendix_e import (
    ADAPTIVE,
    BETA,
    FAMILIES,
    FIXED,
    FIXED_STEPS,
    MAX_STEP,
    Adaptive,
)
from heavystep.paper.simulated import Curve, Figure, Panel
from heavystep.simulation.method import Method
from heavystep.sweeps.specification import ProblemSpec, RunSpec

BATCH, EVERY = 128, 100
COMPANION_MAX_STEP = 100.0
COLUMNS = 4


def methods(rows: int, max_step: float) -> dict[str, Method]:
    """All eight on a data set with this many rows; ``max_step`` is the adaptive ones'."""

    def adaptive(rule: Adaptive) -> Method:
        return Method(
            rule.rule, rule.momentum, rule.c, max_step, rule.omega,
            scaling=rule.scaling, steps_per_epoch=ceil(rows / BATCH), growth=rule.growth,
        )  # fmt: skip

    return {
        **{name: adaptive(rule) for name, rule in ADAPTIVE.items()},
        **{name: Method.fixed(step, BETA) for name, step in zip(FIXED, FIXED_STEPS, strict=True)},
    }


def figure2(*, seeds: int = 5, iterations: int = 20_000, max_step: float = MAX_STEP) -> Figure:
    """The figure with this many runs a curve and steps a run, on the data sets that are here.

    Args:
        seeds: runs of each method.
        iterations: steps of each run.
        max_step: gamma_max of the adaptive methods; only at 1 is it the paper's figure.

    Raises:
        ValueError: ``max_step`` is out of range, or no data set is here.
    """
    validation.real("max_step", max_step, validation.POSITIVE)
    here = present(CATALOGUE)
    if not here:
        raise ValueError(missing_text(CATALOGUE))
    sets, panels = list(CATALOGUE.values()), []
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
        missing_text(CATALOGUE),
    )


def _curves(
    data_set: DataSet, family: str, seeds: int, iterations: int, max_step: float
) -> tuple[Curve, ...]:
    problem, known = ProblemSpec("libsvm", data_set.name), methods(data_set.n, max_step)
    return tuple(
        Curve(
            name,
            RunSpec(problem, known[name], seeds, iterations, BATCH, EVERY),
            "loss",
            style=list(known).index(name),
        )
        for name in (*FAMILIES[family], *FIXED)
    )


def _panel(data_set: DataSet, family: str, curves: tuple[Curve, ...]) -> Panel:
    missing = "" if curves else f"not here:\nheavystep data fetch\n{data_set.name}"
    title = data_set.title
    return Panel(
        f"{data_set.name}.{family}", title, f"training loss, {family} family", curves, missing
    )
