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

from heavystep import validation
from heavystep.data.catalogue import CATALOGUE, DataSet
from heavystep.data.locate import missing_text, present
from heavystep.methods import method_of
from heavystep.paper.appendix_e import FAMILIES, FIXED, MAX_STEP, METHODS, SCALING
from heavystep.paper.simulated import Curve, Figure, Panel
from heavystep.simulation.configuration import Configuration, configure
from heavystep.sweeps.specification import ProblemSpec, RunSpec

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
    curves = []
    for name in (*FAMILIES[family], *FIXED):
        cap = f", largest step {max_step:g}" if name not in FIXED else ""
        label = f"{data_set.name}, {name}{cap}"
        run = RunSpec(problem, known[name], seeds, iterations, BATCH, EVERY, label=label)
        curves.append(Curve(name, run, "loss", style=list(known).index(name)))
    return tuple(curves)


def _panel(data_set: DataSet, family: str, curves: tuple[Curve, ...]) -> Panel:
    missing = "" if curves else f"not here:\nheavystep data fetch\n{data_set.name}"
    ylabel = f"training loss, {family} family"
    return Panel(
        f"{data_set.name}.{family}", data_set.title, ylabel, curves, missing, data_set.name
    )
