"""What goes wrong in a run, told from a few of its steps: one line each, with what to do."""

from collections.abc import Callable, Mapping
from math import inf, isfinite
from statistics import median
from typing import Any, NamedTuple

from heavystep.rules import Rule

LEAST = 20
"""Rows before anything is said."""
MOST, NEARLY_ALL = 0.5, 0.9
EXPLODED = 30.0
"""How far above its first values a loss is that exploded, in units of them."""
BEGINNING = 300
"""Steps in which an explosion is looked for."""
SETTLED = 200
"""Steps after which a step that is still the largest one is there to stay."""
BELOW = 1e-3
"""A loss counts as below its bound if it is by more than this share of the first loss."""
SAME = 1e-4
"""Squared norms within this of each other are the same: clipping leaves a little less than 1."""
ROUNDING = 1e-5


class Row(NamedTuple):
    """What is known of one step."""

    loss: float
    gap: float
    """The loss above its lower bound; infinite if none is known."""
    grad_sqnorm: float
    base_step: float
    max_step: float = inf

    @property
    def finite(self) -> bool:
        """Whether the batch could be used."""
        return isfinite(self.loss) and isfinite(self.grad_sqnorm)


class Story(NamedTuple):
    """What is known of a run."""

    steps: int
    first: list[Row]
    """The first rows whose batch could be used."""
    recent: list[Row]
    rule: Rule
    group: Mapping[str, Any]
    """The options."""

    @property
    def usable(self) -> list[Row]:
        """The recent rows whose batch could be used."""
        return [row for row in self.recent if row.finite]

    @property
    def steady(self) -> bool:
        """Whether the rule finds the level of the loss itself."""
        return "level" in self.rule.memory


def refused(story: Story) -> str | None:
    """Most batches are NaN or infinite."""
    bad = len(story.recent) - len(story.usable)
    if bad <= MOST * len(story.recent):
        return None
    if all(isfinite(row.loss) and row.grad_sqnorm == inf for row in story.recent if not row.finite):
        return (
            f"{bad} of {len(story.recent)} recent batches had a finite loss and a gradient whose "
            "squared norm is beyond its number format: they were refused and changed nothing. "
            "Multiply the loss by a small number, or see what makes the gradient infinite"
        )
    return (
        f"{bad} of {len(story.recent)} recent batches had a loss or gradient that is NaN or "
        "infinite: they were refused and changed nothing. Look for the operation that makes it "
        "(torch.autograd.set_detect_anomaly), and at the data"
    )


def below_bound(story: Story) -> str | None:
    """The loss stays below what was said to be its lower bound."""
    rows, scale = story.usable, max(abs(row.loss) for row in story.first)
    low = [row for row in rows if row.gap < -BELOW * scale]
    # Other rules stand still at these losses only, and a bound may be that of most of them.
    if len(low) <= (MOST if story.steady else NEARLY_ALL) * len(rows):
        return None
    bound = f"{low[-1].loss - low[-1].gap:g}"
    found = f"the loss stays below its lower_bound ({low[-1].loss:g} < {bound})"
    if all(row.base_step == 0.0 for row in low):
        # The line searches take None in every scaling.
        steady = 'scaling="steady" and ' if "scaling" in story.group else ""
        return (
            f"{found}: all steps are 0 and nothing is trained. Give a lower bound that no loss "
            f"falls below, or {steady}lower_bound=None if none is known"
        )
    if story.steady:
        return (
            f"{found}, which is therefore none: a level below the losses seen took its place. Give "
            "a lower bound that no loss falls below, or lower_bound=None if none is known"
        )
    return (
        f"{found}, which is therefore none: steps are too small. Give one that no loss falls below"
    )


def standing(story: Story) -> str | None:
    """Nothing is trained, though there is something to train."""
    rows = [row for row in story.usable if row.grad_sqnorm > 0.0]
    if len(rows) < LEAST or any(row.base_step > 0.0 for row in rows):
        return None
    length = story.group.get("total_steps")
    if length is not None and story.steps > length:
        return (
            f"the run is longer than total_steps ({length:g}): all steps are 0 and nothing is "
            'trained. Set group["total_steps"] of the parameter groups to the length of the run'
        )
    return (
        "all recent steps are 0 and nothing is trained, though the gradient is not 0: the loss "
        f"({rows[-1].loss:g}) stands at its lower bound, or is too small for its number format. "
        "Give a lower bound that it does not reach, or lower_bound=None if none is known"
    )


def vanished(story: Story) -> str | None:
    """There has never been a gradient to go along."""
    rows = [*story.first, *story.usable]
    if any(max(row.grad_sqnorm, row.base_step) > 0.0 for row in rows):
        return None
    if any(row.loss == 0.0 or row.gap <= 0.0 for row in rows):
        return None
    return (
        "the squared norm of the gradient is 0 at every batch so far and nothing is trained, but "
        f"the loss ({rows[-1].loss:g}) is not 0: squares of so small a gradient may be 0 in its "
        "number format. Multiply the loss by a large number, or see why it does not depend on the "
        "parameters"
    )


def at_max_step(story: Story) -> str | None:
    """The step is a constant that the user set."""
    rows = story.usable
    held = [row for row in rows if row.base_step >= (1.0 - ROUNDING) * row.max_step]
    if story.steps < SETTLED or len(held) < NEARLY_ALL * len(rows):
        return None
    advice = "raise max_step"
    if "scaling" in story.group:
        advice += ', or leave it out and take scaling="steady"'
    return (
        f"{len(held)} of {len(rows)} recent steps are max_step ({held[-1].max_step:g}), which is "
        f"then a learning rate in disguise: {advice}"
    )


def exploded(story: Story) -> str | None:
    """The first steps destroyed what they should improve."""
    before = max(row.loss for row in story.first)
    now = median(row.loss for row in story.usable[-10:])
    if story.steps > BEGINNING or now <= before + EXPLODED * abs(before):
        return None
    advice = "lower lr"
    if isinstance(story.group.get("max_step"), float):
        advice = "lower max_step"
        advice += ' or take scaling="steady"' if "scaling" in story.group else ""
    return (
        f"the loss is {now:g} after {story.steps} steps and was {before:g} at first: the first "
        f"steps were too long. Begin anew and {advice}"
    )


def clipped(story: Story) -> str | None:
    """The norm that the rule divides by is that of clipping."""
    rows = [row for row in story.usable if row.base_step > 0.0 and row.grad_sqnorm > 0.0]
    if story.rule.searches or "lower_bound" not in story.rule.reads or len(rows) < LEAST:
        return None
    most = max(row.grad_sqnorm for row in rows)
    same = [row for row in rows if row.grad_sqnorm >= (1.0 - SAME) * most]
    losses = [row.loss for row in same]
    # Where nothing moves, the norm of one and the same batch does not change either.
    moving = max(losses) - min(losses) > 0.01 * max(map(abs, losses))
    if len(same) < NEARLY_ALL * len(rows) or not moving:
        return None
    return (
        f"the gradient has norm {most**0.5:.3g} at {len(same)} of {len(rows)} recent steps, as if "
        "clipped before step(): the rule sees the clipped norm, and its steps are those of "
        "SGD with clipping. Leave the clipping out; where the gradient is large, the rule takes "
        "small steps itself"
    )


FINDINGS: dict[str, Callable[[Story], str | None]] = {
    "refused": refused,
    "below_bound": below_bound,
    "standing": standing,
    "vanished": vanished,
    "at_max_step": at_max_step,
    "exploded": exploded,
    "clipped": clipped,
}
"""By kind; each kind is told once."""


def found_in(story: Story) -> dict[str, str]:
    """What is to be said of a run, by kind."""
    if len(story.recent) < LEAST:
        return {}
    told = {"refused": refused(story)}
    if len(story.usable) >= LEAST // 2 and story.first:
        told = {kind: find(story) for kind, find in FINDINGS.items()}
    if told.get("below_bound"):  # which says why
        told.pop("standing", None)
    return {kind: text for kind, text in told.items() if text is not None}
