"""What the trials say: a table, and which method to use."""

from dataclasses import dataclass
from itertools import accumulate
from math import isfinite, sqrt
from statistics import fmean, stdev

from heavystep.methods import METHODS
from heavystep.suggestions.trial import Trial

MAIN = ("SHBPolyak", "SHBAdam", "SHBArmijo")
"""What is tried unless the user names others. These are classes of ``heavystep`` itself."""
TAIL = 5
"""Losses are means over the last 1 / TAIL of the steps."""
SURE = 2.0
"""A loss is lower than another if so many standard errors lie between them."""
MIB = 2.0**20
HEADING = ("method", "loss", "at equal cost", "ms a step", "forwards a step", "state MiB")


@dataclass(frozen=True)
class Tail:
    """The mean of the last losses, and its standard error."""

    mean: float
    error: float

    def clearly_below(self, other: "Tail") -> bool:
        """Whether the difference is more than noise of the batches could make it."""
        return self.mean < other.mean - SURE * sqrt(self.error**2 + other.error**2)


def tail_of(losses: tuple[float, ...]) -> Tail:
    """The mean of the last fifth of the losses; infinite if one of them is not finite.

    >>> tail_of((9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 1.0, 3.0))
    Tail(mean=2.0, error=1.0)
    """
    last = losses[-max(len(losses) // TAIL, 1) :]
    if not all(map(isfinite, last)):
        return Tail(float("inf"), 0.0)
    return Tail(fmean(last), stdev(last) / sqrt(len(last)) if len(last) > 1 else 0.0)


@dataclass(frozen=True)
class Suggestion:
    """The trials, and which method to use. ``print`` it for the table."""

    trials: tuple[Trial, ...]
    best: str | None
    """The method to use; None if no method got below where it began."""
    reason: str

    @property
    def code(self) -> str:
        """The line that makes the optimizer; empty if there is none to use."""
        if self.best is None:
            return ""
        made = f"{self.best}(" if self.best in MAIN else f'create("{self.best}", '
        buffers = ", buffers=model.buffers()" if METHODS[self.best].rule.searches else ""
        return f"opt = heavystep.{made}model.parameters(){buffers})"

    def __str__(self) -> str:
        budget = equal_cost(self.trials)
        peaks = any(trial.peak_memory is not None for trial in self.trials)
        rows = [(*HEADING, "peak MiB", "refused") if peaks else (*HEADING, "refused")]
        for trial in self.trials:
            peak = (f"{(trial.peak_memory or 0) / MIB:.1f}",) if peaks else ()
            rows.append(
                (
                    trial.method,
                    f"{tail_of(trial.losses).mean:.4g}",
                    f"{tail_of(within(trial, budget)).mean:.4g}",
                    f"{trial.seconds * 1e3:.2f}",
                    f"{trial.forwards:.2f}",
                    f"{trial.state_memory / MIB:.2f}",
                    *peak,
                    str(trial.refused),
                )
            )
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.rjust, row, widths)) for row in rows]
        notes = [f"{trial.method}: {text}" for trial in self.trials for text in trial.warnings]
        return "\n".join([*lines, *notes, self.reason, *([self.code] if self.code else [])])


def equal_cost(trials: tuple[Trial, ...]) -> float:
    """What the cheapest trial cost: all methods are compared after as much work."""
    return min(sum(trial.costs) for trial in trials)


def within(trial: Trial, budget: float) -> tuple[float, ...]:
    """The losses of the steps that a budget pays for, the first one in any case."""
    spent = list(accumulate(trial.costs))
    return trial.losses[: max(sum(cost <= budget for cost in spent), 1)]


def suggestion_of(trials: tuple[Trial, ...]) -> Suggestion:
    """The method with the lowest loss after equal work.

    Of those that noise cannot tell apart it is the one with the cheapest steps.

    Args:
        trials: of different methods from the same start, on the same batches.
    """
    budget = equal_cost(trials)
    tails = {trial.method: tail_of(within(trial, budget)) for trial in trials}
    # Backwards, so that the first fifth is compared with the last one: single batches are noise.
    begun = {trial.method: tail_of(trial.losses[::-1]) for trial in trials}
    fell = [t for t in trials if tails[t.method].mean < begun[t.method].mean]
    if not fell:
        reason = (
            "No method got below where it began: take more steps, and see whether the loss and "
            "its lower bound are what you think."
        )
        return Suggestion(trials, None, reason)
    lowest = min(fell, key=lambda trial: tails[trial.method].mean)
    level = [trial for trial in fell if not tails[lowest.method].clearly_below(tails[trial.method])]
    chosen = min(level, key=lambda trial: (sum(trial.costs), trials.index(trial)))
    others = [trial.method for trial in level if trial is not chosen]
    why = "the lowest loss after equal work"
    if others:
        why = f"as low a loss as {' and '.join(others)} up to noise, and no step costs less"
    reason = (
        f"Use {chosen.method}: {why}, in {len(chosen.losses)} steps. "
        "That is how training begins, not how it ends."
    )
    return Suggestion(trials, chosen.method, reason)
