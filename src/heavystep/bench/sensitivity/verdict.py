"""How far an untouched default is from the best that the best rival reaches with its grid."""

from typing import NamedTuple

from heavystep.bench.sensitivity.outcome import Best, ContenderOutcome, Outcome, best_of
from heavystep.bench.tasks import LOWER

LOSS_CLOSE = 2.0
"""Losses that differ by up to so many percent of l_0 less the better one are level."""


class Verdict(NamedTuple):
    """One of our methods on one task; numbers are means over seeds."""

    task: str
    method: str
    loss: float
    """With nothing set."""
    rival_loss: str
    """The best of the best rival's grid, and where."""
    loss_behind: float
    """How far the loss is behind that, in percent of what the rival gained from the start."""
    metric_name: str
    metric: float
    """With nothing set."""
    average_metric: float
    """The same at the averaged iterate; NaN if nobody asked."""
    rival_metric: str
    metric_behind: float
    """How far the metric is behind, in the unit; negative: ahead."""
    unit: str
    score_ratio: float
    """The sensitivity as a part of AdamW's."""
    words: str


def verdicts_of(outcome: Outcome) -> list[Verdict]:
    """A verdict for each of our methods; none without a rival."""
    rivals = [each for each in outcome.contenders if not each.ours]
    return [_verdict(outcome, each, rivals) for each in outcome.contenders if each.ours and rivals]


def _verdict(outcome: Outcome, each: ContenderOutcome, rivals: list[ContenderOutcome]) -> Verdict:
    metric, start = outcome.plan.task.metric, float(outcome.start.mean())
    loss = float(outcome.losses(each.default).mean())
    reached = float(outcome.metrics(each.default).mean())
    average = float(each.default.average_metric.mean())
    by_loss = _better([best_of(outcome, rival, "loss") for rival in rivals], LOWER)
    by_metric = _better([best_of(outcome, rival, "metric") for rival in rivals], metric.better)
    gained = start - by_loss.result
    loss_behind = 100.0 * (loss - by_loss.result) / gained if gained > 0.0 else 0.0
    metric_behind = metric.behind(reached, by_metric.result)
    words = f"metric {word(metric_behind, metric.close)}, loss {word(loss_behind, LOSS_CLOSE)}"
    return Verdict(
        outcome.plan.task.name, each.name, loss, str(by_loss), loss_behind, metric.name, reached,
        average, str(by_metric), metric_behind, metric.unit,
        outcome.ratio(each.name), words,
    )  # fmt: skip


def _better(found: list[Best], better: int) -> Best:
    return max(found, key=lambda best: better * best.result)


def word(behind: float, close: float) -> str:
    """Say on which side a difference is.

    >>> word(0.3, 0.5), word(-0.6, 0.5), word(0.6, 0.5)
    ('level', 'ahead', 'behind')
    """
    if abs(behind) <= close:
        return "level"
    return "behind" if behind > 0.0 else "ahead"
