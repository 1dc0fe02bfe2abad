"""What the paper claims about Figure 2, as predicates on the results."""

from heavystep.paper.appendix_e import FAMILIES, FIXED
from heavystep.paper.claim import Claim
from heavystep.paper.figure import by_data_set
from heavystep.paper.figure2.table import area, final_loss, ratio
from heavystep.paper.interval import mean_and_half_width
from heavystep.paper.simulated import Figure
from heavystep.records import Trajectories
from heavystep.sweeps.runner import Results

PRONOUNCED = ("mushrooms", "real-sim")
"""Data sets on which the paper calls the advantage of momentum particularly pronounced."""
SUBSTANTIALLY = 5.0
"""The factor by which the loss must be lower there."""
CLOSE = 1.02
"""The most that the final loss may be, in units of the loss with the best fixed step."""

Runs = dict[str, Trajectories]


def figure2_claims(figure: Figure, results: Results) -> list[Claim]:
    """All claims of Figure 2 for the data sets that are here; a companion has none."""
    if figure.companion:
        return []
    sets = by_data_set(figure, results)
    claims = [claim for family in FAMILIES for claim in _generally(family, sets)]
    claims += [
        _pronounced(family, name, sets[name])
        for name in PRONOUNCED
        if name in sets
        for family in FAMILIES
    ]
    claims += [
        _close_to_the_best(with_momentum, name, runs)
        for name, runs in sets.items()
        for with_momentum, _ in FAMILIES.values()
    ]
    return claims


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
            "final losses < 1 on more than half of those whose 95% intervals do not overlap",
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
    return Claim(f"{name}.{method}", text, holds, ratios)
