"""Warnings about a run: one line each, with the remedy.

At the first steps and at an eighth of the later ones a few numbers are put aside where they are, on
the device. A few dozen of them at once are copied to the host, and read at a later step, when they
have arrived. No number of the run depends on it, and it is no part of any state. Not watched: steps
within ``torch.compile``, graphs that the user recorded, and devices other than CPUs and CUDA.
"""

import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf, isfinite
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor

from heavystep.optim.info import ROUNDING
from heavystep.optim.measure import as_scalar, decay_of
from heavystep.rules import Rule

_OURS = (str(Path(__file__).parents[1]), str(Path(torch.__file__).parent))
NOTHING_TO_TRAIN = (
    "no parameter has a gradient and nothing was updated: was backward() called, and is anything "
    "left to train?"
)
ADDED_UP = (
    "gradients seem to add up: each of the first steps added to those of the steps before. Call "
    "zero_grad() before backward()"
)
HABITUAL = (
    "lr (eta) is {:g}, and it is no learning rate: it multiplies the step that the rule has "
    "chosen, and makes it too short. Leave it out, which is lr=1; a scheduler should begin at 1 or "
    "warm up to it"
)


def warn_caller(text: str) -> None:
    """A RuntimeWarning at the nearest line outside this package and torch."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, RuntimeWarning, stacklevel=level)


FIRST, RECENT = 5, 25
"""Rows that are kept of the beginning, and of the end."""
PACE = 0.6180339887498949
"""Multiples of it, without their whole part, are even in [0, 1) along every period of batches."""
LEAST = 20  # rows before anything is said
MOST, NEARLY_ALL = 0.5, 0.9
"""Shares of the rows. By chance nine tenths of 20 coins show heads once in 5,000 times."""
SETTLED = 200
"""Steps after which a step that is still the largest one is there to stay: at 200 the default's own
warm-up allows 0.9 of a step."""
SCALED = 1024.0
"""A loss that is this large was probably multiplied by a GradScaler, which begins at 65536."""
EXPLODED = 30.0
"""Growth of a loss that exploded, in units of its first values; 1 where lr is above
1, which is a reason."""
EATEN = 0.01
"""The share of a weight that decay takes a step: after 100 steps a third is left. SGD with 0.1 and
5e-4 takes 5e-5, AdamW with 1e-3 and 0.1 takes 1e-4."""
HABIT = 0.1
"""Multipliers below it, at their largest, were meant as learning rates: the rule's own length, of
which they would leave less than a tenth, has been within a factor of 3 of the best in all runs."""
SAME = 1e-4
"""Squared norms within this of each other are the same: clipping leaves a little less than 1."""
BELOW = 1e-3  # of the first losses; float16 rounds a loss by half of it
BEGINNING = 300  # steps; what explodes later does not do so by the first of them
STILL = 0.01  # relative change of the loss of one batch that hardly moves


class Row(NamedTuple):
    """The numbers of one step."""

    loss: float
    gap: float
    """The loss above its lower bound; infinite if none is known."""
    grad_sqnorm: float
    base_step: float
    max_step: float

    @property
    def finite(self) -> bool:
        """True if the batch could be used."""
        return isfinite(self.loss) and isfinite(self.grad_sqnorm)


@dataclass(frozen=True)
class Run:
    """The numbers of a run when it is looked at."""

    steps: int
    first: list[Row]
    """Of the beginning; all their batches could be used."""
    recent: list[Row]
    rule: Rule
    group: Mapping[str, Any]

    @cached_property
    def rows(self) -> list[Row]:
        """The recent batches that could be used."""
        return [row for row in self.recent if row.finite]

    @cached_property
    def steep(self) -> list[Row]:
        """Those of them that have a gradient."""
        return [row for row in self.rows if row.grad_sqnorm > 0.0]

    @property
    def lr(self) -> float | None:
        """The multiplier; None if it is a tensor, since to read it is to wait."""
        return None if isinstance(self.group["lr"], Tensor) else self.group["lr"]

    @property
    def too_long(self) -> bool:
        """True if the user made steps longer than the rule chose."""
        return self.lr is not None and self.lr > 1.0

    @property
    def scaled(self) -> bool:
        """True if losses are so large that they were probably multiplied."""
        return bool(self.first) and abs(self.first[0].loss) >= SCALED

    @property
    def decay(self) -> float:
        """The weight decay that shrinks parameters, and is no part of the loss."""
        return float(decay_of(self.group, "decoupled"))

    @property
    def decays_all(self) -> bool:
        """True if weight decay took more than all of a parameter at the first step."""
        if not self.first or self.rule.sets_decay:
            return False
        return (self.lr or 1.0) * self.decay * self.first[0].base_step > 1.0

    def may_leave_out(self, name: str) -> bool:
        """True if the rule works without this option."""
        return any(option.optional for option in self.rule.options if option.name == name)

    def remedy(self) -> str:
        """How to make steps shorter."""
        if self.too_long:
            return f"lower lr, which is {self.lr:g} and multiplies every step"
        if self.scaled:
            return "hand the loss over as it is, not multiplied by a GradScaler or by hand"
        if self.decays_all:
            return f"lower weight_decay ({self.decay:g}), which takes more than all of a parameter"
        capped = self.group.get("max_step") is not None
        return "lower max_step or take HeavyStep" if capped else "lower lr"


# A check of a run returns the warning, or None if all is well.


def refused(run: Run) -> str | None:
    """Most batches are NaN or infinite."""
    bad = [row for row in run.recent if not row.finite]
    if len(bad) <= MOST * len(run.recent):
        return None
    if all(isfinite(row.loss) and row.grad_sqnorm == inf for row in bad):
        what = "finite loss and a gradient whose squared norm is beyond its number format"
        advice = "Multiply the loss by a small number, or see what makes the gradient infinite"
    else:
        what = "loss or gradient that is NaN or infinite"
        anomaly = "(torch.autograd.set_detect_anomaly), and at the data"
        advice = f"Look for the operation that makes it {anomaly}"
        if run.first and (run.too_long or run.scaled or run.decays_all):
            advice = f"Steps were probably too long: begin anew and {run.remedy()}"
    return (
        f"{len(bad)} of {len(run.recent)} recent batches had a {what}: they were refused and "
        f"changed nothing. {advice}"
    )


def below_bound(run: Run) -> str | None:
    """The loss stays below what was said to be its lower bound, by more than rounding."""
    most = max(abs(row.loss) for row in run.first)
    low = [row for row in run.rows if row.gap < -BELOW * most]
    # A rule stands still at these losses only, and a bound may be that of most of them.
    if len(low) <= NEARLY_ALL * len(run.rows):
        return None
    if all(row.base_step == 0.0 for row in low):
        so = ": all steps are 0 and nothing is trained. Give a lower bound that no loss falls below"
    elif run.may_leave_out("lower_bound") and not run.rule.searches:
        so = ": one is estimated instead. Give lower_bound=None if none is known"
    else:
        so = ", which is therefore none: steps are too small. Give one that no loss falls below"
    bound = low[-1].loss - low[-1].gap
    return f"the loss stays below its lower_bound ({low[-1].loss:g} < {bound:g}){so}"


def standing(run: Run) -> str | None:
    """Nothing is trained, though there is something to train."""
    steep = run.steep
    if len(steep) < LEAST or any(row.base_step != 0.0 for row in steep) or below_bound(run):
        return None
    return (
        "all recent steps are 0 and nothing is trained, though the gradient is not 0: the loss "
        f"({steep[-1].loss:g}) stands at its lower bound, or is too small for its number "
        "format. Give a lower bound that it does not reach"
    )


def vanished(run: Run) -> str | None:
    """There has never been a gradient to go along."""
    known = [*run.first, *run.rows]
    still = all(max(row.grad_sqnorm, row.base_step) <= 0.0 for row in known)
    if not still or any(row.loss == 0.0 or row.gap <= 0.0 for row in known):
        return None
    return (
        "the squared norm of the gradient is 0 at every batch so far and nothing is trained, "
        f"but the loss ({run.rows[-1].loss:g}) is not 0: squares of so small a gradient may be 0 "
        "in its number format. Multiply the loss by a large number, or see why it does not "
        "depend on the parameters"
    )


def exploded(run: Run) -> str | None:
    """The first steps destroyed what they should improve."""
    # Losses of single batches differ: without a reason for an explosion, the largest counts.
    reason = run.too_long or run.scaled
    before = run.first[0].loss if reason else max(row.loss for row in run.first)
    now = median(row.loss for row in run.rows[-10:])
    limit = before + (1.0 if run.too_long else EXPLODED) * abs(before)
    if run.steps > BEGINNING or before == 0.0 or now <= limit:
        return None
    return (
        f"the loss is {now:g} after {run.steps} steps and was {before:g} at first: the first steps "
        f"were too long. Begin anew and {run.remedy()}"
    )


def at_max_step(run: Run) -> str | None:
    """The step is a constant that the user set."""
    held = [row for row in run.rows if row.base_step >= (1.0 - ROUNDING) * row.max_step]
    few = run.steps < SETTLED or len(held) < NEARLY_ALL * len(run.rows)
    if few or run.too_long or exploded(run):
        return None
    other = "leave it out" if run.may_leave_out("max_step") else "take HeavyStep, which needs none"
    return (
        f"{len(held)} of {len(run.rows)} recent steps are max_step ("
        f"{run.group['max_step']:g}), which is then a learning rate in disguise: raise max_step, "
        f"or {other}"
    )


def eaten(run: Run) -> str | None:
    """Weight decay undoes what the steps do."""
    if run.lr is None or run.steps < SETTLED:
        return None
    # A rule that sets it takes lambda / k at step k.
    length = 1.0 / run.steps if run.rule.sets_decay else median(row.base_step for row in run.rows)
    share = run.lr * run.decay * length
    if share < EATEN:
        return None
    return (
        f"weight_decay ({run.decay:g}) takes {share:.1%} of every parameter a "
        "step, and little that is older than a hundred steps remains: lower it; 0.1 is usual "
        "for HeavyStep, 5e-4 where steps are about 1"
    )


def clipped(run: Run) -> str | None:
    """The norm that the rule divides by is that of clipping."""
    moved = [row for row in run.steep if row.base_step > 0.0]
    if run.rule.searches or "lower_bound" not in run.rule.reads or len(moved) < LEAST:
        return None
    most = max(row.grad_sqnorm for row in moved)
    same = [row for row in moved if row.grad_sqnorm >= (1.0 - SAME) * most]
    losses = [row.loss for row in same]
    # Where nothing moves, the norm of one and the same batch does not change either.
    still = max(losses) - min(losses) <= STILL * max(map(abs, losses))
    if still or len(same) < NEARLY_ALL * len(moved):
        return None
    return (
        f"the gradient has norm {most**0.5:.3g} at {len(same)} of {len(moved)} recent steps, "
        "as if clipped before step(): the rule then sees the bound of clip_grad_norm_ "
        "(max_grad_norm) and not the gradient. Leave the clipping out; where the gradient is "
        "large, the rule takes small steps itself"
    )


CHECKS = (below_bound, standing, vanished, exploded, at_max_step, eaten, clipped)
"""The checks besides :func:`refused`; they need enough batches that could be used."""


class Watch:
    """Numbers that one optimizer has seen of its run, and the warnings it has given."""

    def __init__(self) -> None:
        self._steps = 0
        self._put_aside: list[Any] = []
        self._arriving: tuple[Any, Any] | None = None
        """Rows on their way to the host, and the event of CUDA that tells when they are there."""
        self._first: list[Row] = []
        self._recent: list[Row] = []
        self._said: set[str] = set()
        self._rate: tuple[float, int] | None = None
        """The largest learning rate, and the step at which it was reached."""
        self._habit_is_clear = False  # whether learning rates are multipliers, as they should be
        self._gradient: tuple[int, int] | None = None
        self._added_up = 0
        self.young = True  # whether the first steps are not over
        self.zeroed = False  # whether the optimizer zeroed the gradients since the last step

    def tell(self, text: str, kind: str = "") -> None:
        """Warn, once in a run, whatever Python does with a warning that it has shown before."""
        if (kind or text) not in self._said:
            self._said.add(kind or text)
            warn_caller(text)

    def see_rates(self, groups: list[dict[str, Any]], began: bool) -> None:
        """Take in learning rates that are new, of a method that multiplies its own step by them."""
        if self._habit_is_clear:
            return
        names = ("lr", "initial_lr", "max_lr")  # of torch's schedulers, which note where they go
        rates = [group[name] for group in groups for name in names if name in group]
        unknown = began and self._rate is None  # a schedule may be near its end
        # To read a tensor is to wait.
        if unknown or any(isinstance(rate, Tensor) for rate in rates) or max(rates) >= HABIT:
            self._habit_is_clear = True
        elif self._rate is None or max(rates) > self._rate[0]:
            self._rate = max(rates), self._steps

    def see_gradient(self, grad: Tensor) -> None:
        """Look whether gradients are added to and never zeroed, at the first steps given a loss."""
        place, version = id(grad), grad._version
        added = (place, version - 1) == self._gradient and not self.zeroed
        self._added_up = self._added_up + 1 if added else 0
        self._gradient, self.zeroed = (place, version), False
        if self._added_up == 3:
            self.tell(ADDED_UP)
        self.young = self._steps < 10

    def see(self, told: dict[str, Any], plain: Any, rule: Rule, group: dict[str, Any]) -> None:
        """Take in one step, of which ``told`` has the fields of ``info``, and warn.

        ``plain`` is ||g||^2 where ``grad_sqnorm`` is in the metric of a diagonal, else None.
        """
        self._steps += 1
        steps = self._steps
        watched = steps <= RECENT or steps * PACE % 1.0 < 0.125
        if watched and _readable(told["grad_sqnorm"]):
            self._put_aside.append(_row(told, plain))
        if self._arriving is None and self._put_aside and (steps % 100 == 0 or steps in (25, 50)):
            self._arriving, self._put_aside = _sent(self._put_aside), []
        if self._arriving is None or not (self._arriving[1] is None or self._arriving[1].query()):
            return
        rows = [Row(*five) for five in self._arriving[0].tolist()]
        self._arriving = None
        self._first += [row for row in rows if row.finite][: FIRST - len(self._first)]
        self._recent = (self._recent + rows)[-RECENT:]
        if len(self._recent) >= LEAST:
            run = Run(steps, self._first, self._recent, rule, group)
            usable = self._first and len(run.rows) >= LEAST // 2
            for check in (refused, *(CHECKS if usable else ())):
                if text := check(run):
                    self.tell(text, check.__name__)
        if self._rate is not None and not self._habit_is_clear:
            rate, since = self._rate
            if rate > 0.0 and steps - since >= RECENT:  # it is not on its way up
                self.tell(HABITUAL.format(rate), "habit")


def _readable(number: Any) -> bool:
    """True if the host can read it later; it cannot while a CUDA graph is recorded."""
    if not isinstance(number, Tensor) or number.is_cpu:
        return True
    return number.is_cuda and not torch.cuda.is_current_stream_capturing()


def _row(told: dict[str, Any], plain: Any) -> Any:
    """The numbers of a :class:`Row`, where they are."""
    loss = 0.0 if told["loss"] is None else told["loss"]
    bound = -inf if told["lower_bound"] is None else told["lower_bound"]
    norm = told["grad_sqnorm"] if plain is None else plain
    largest = told["max_step"]
    five = (loss, loss - bound, norm, told["base_step"], inf if largest is None else largest)
    if not isinstance(norm, Tensor):
        return five
    if five[-1] > torch.finfo(norm.dtype).max:  # no step on the device is as large
        five = (*five[:-1], inf)
    # A copy: the next replay of a graph writes to where the fields are.
    return torch.stack([as_scalar(each, norm.dtype, norm.device) for each in five])


def _sent(rows: list[Any]) -> tuple[Tensor, Any]:
    """Rows on their way to the host, and an event that tells when they are there, if they wait."""
    place = getattr(rows[-1], "device", None)
    # The parameters may have moved to another device.
    alike = [row for row in rows if getattr(row, "device", None) == place]
    if place is None:
        return torch.tensor(alike, dtype=torch.float64), None
    packed = torch.stack(alike)
    if not packed.is_cuda:
        return packed, None
    numbers = torch.empty(packed.shape, dtype=packed.dtype, pin_memory=True)
    numbers.copy_(packed, non_blocking=True)
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(place))
    return numbers, event
