"""Everybody with nothing set: how far from the best loss that anybody reaches with any constant."""

from collections.abc import Mapping, Sequence
from statistics import mean, median
from typing import NamedTuple

from heavystep.bench.sensitivity.outcome import Outcome
from heavystep.bench.sensitivity.verdict import LOSS_CLOSE
from heavystep.compare.score import counted
from heavystep.paper.table import piped

AVERAGED = ", averaged"
"""What the name of a contender ends in if its averaged iterate is meant."""


class Untouched(NamedTuple):
    """A contender over the tasks; numbers are in percent of l_0 - l*."""

    method: str
    mean: float
    median: float
    worst: float
    worst_task: str
    level: int
    """On how many tasks it is within 2%."""
    tasks: int


def left_of(outcome: Outcome) -> dict[str, float]:
    """The part of l_0 - l* that each untouched default has left, by contender.

    0 is the least loss that any contender reaches with any constant, 1 that of the start; a run
    that ends above the start counts as 1.
    """
    found = {}
    for each in outcome.contenders:
        losses = {each.name: each.default.loss}
        if each.ours and outcome.plan.average:
            losses[each.name + AVERAGED] = each.default.average_loss
        for name, loss in losses.items():
            reached = float(counted(loss, outcome.start).mean())
            left = max(reached - outcome.least, 0.0)
            found[name] = left / outcome.worst if outcome.worst > 0.0 else 0.0
    return found


def summaries(left: Mapping[str, Mapping[str, float]]) -> list[Untouched]:
    """A row for each contender that was on all tasks, the best first.

    Args:
        left: what each contender has left, by task.
    """
    everywhere = [set(parts) for parts in left.values()]
    names = set.intersection(*everywhere) if everywhere else set()
    return sorted((_summary(name, left) for name in names), key=lambda row: (row.mean, row.method))


def _summary(name: str, left: Mapping[str, Mapping[str, float]]) -> Untouched:
    percent = {task: 100.0 * parts[name] for task, parts in left.items()}
    worst = max(percent, key=lambda task: percent[task])
    level = sum(part <= LOSS_CLOSE for part in percent.values())
    values = percent.values()
    return Untouched(name, mean(values), median(values), percent[worst], worst, level, len(percent))


def markdown(rows: Sequence[Untouched]) -> str:
    """The rows as a table."""
    lines = [
        ["nothing set", "mean", "median", "worst", "level on"],
        ["---", "---:", "---:", "---", "---:"],
    ]
    for row in rows:
        lines.append(
            [
                row.method,
                f"{row.mean:.2g}%",
                f"{row.median:.2g}%",
                f"{row.worst:.2g}% ({row.worst_task})",
                f"{row.level} of {row.tasks}",
            ]
        )
    return piped(lines)
