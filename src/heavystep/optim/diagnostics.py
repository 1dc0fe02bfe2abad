"""Report of the last step, and warnings about a run: one line each, with the remedy.

At the first steps and at an eighth of the later ones a few numbers are put aside where they are, on
the device. A few dozen of them at once are copied to the host, and read at a later step, when they
have arrived. No number of the run depends on it, and it is no part of any state. Not watched: steps
within ``torch.compile``, graphs that the user recorded, and devices other than CPUs and CUDA.
"""

import sys
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import inf, isfinite
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor

from heavystep.optim.measure import as_scalar
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
ROUNDING = 1e-5
"""A step may be a product of kappa and max_step / kappa, in the format of the device."""


def warn_caller(text: str) -> None:
    """A RuntimeWarning at the nearest line outside this package and torch."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, RuntimeWarning, stacklevel=level)


@dataclass(frozen=True)
class StepInfo:
    """Outcome of one optimizer step, as ``opt.info``.

    Fields are plain numbers where the host chose the step, that is on CPUs and in line searches,
    and 0-dim tensors on the parameters' device otherwise, so that reading one is what synchronises.
    ``float(info.step)`` works on both.
    """

    step: Any
    """Step gamma_k taken by the first parameter group; 0 if the batch was refused."""
    base_step: Any
    """The step before the group's multiplier ``lr``: gamma_k / eta_k, alike for all groups."""
    loss: Any
    """The loss that the rule saw, at the parameters before the step. None if none was given."""
    grad_sqnorm: Any
    """Squared norm of the gradient that the rule saw, over all parameter groups; g' D^-1 g for a
    method with a diagonal D."""
    trials: int
    """Loss evaluations spent in the line search, besides the first one."""
    accepted: Any
    """False if the batch was refused: parameters and state are then as before the step."""
    capped: Any
    """True if the step is the largest that the caps of the rule allowed; :attr:`cap` says which.
    Of HeavyStep ``max_step`` is one, and trust, which holds moves of any run, is none."""
    lower_bound: Any = None
    """The lower bound of the loss that the rule saw; None: it saw none."""
    max_step: Any = None
    """The largest step before ``lr``, if one was set."""

    @property
    def cap(self) -> str | None:
        """Which cap held the step; waits for the device.

        ``"max_step"``: the step is ``max_step``. ``"growth"``: it is less than that, and as long as
        the steps before it allow: the smooth reset, or the cap of a method whose steps only fall.
        None: it was not capped.
        """
        if not self.capped:
            return None
        largest = self.max_step is not None and self.base_step >= (1.0 - ROUNDING) * self.max_step
        return "max_step" if largest else "growth"

    def numbers(self) -> dict[str, float | int | bool | str | None]:
        """All fields as Python numbers, and :attr:`cap`, for a logger; waits for the device."""
        fields = {
            name: value.item() if isinstance(value, Tensor) else value
            for name, value in asdict(self).items()
        }
        return {**fields, "cap": self.cap}


FIRST, RECENT = 5, 25
"""Rows that are kept of the beginning, and of the end."""
PACE = 0.6180339887498949
"""Multiples of it, without their whole part, are even in [0, 1) along every period of batches."""
LEAST = 20  # rows before anything is said
MOST, NEARLY_ALL = 0.5, 0.9
SETTLED = 200  # steps after which a step that is still the largest one is there to stay
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


def findings(
    steps: int, first: list[Row], recent: list[Row], rule: Rule, group: Mapping[str, Any]
) -> dict[str, str]:
    """Warnings about a run, by kind; batches of the first rows could all be used."""
    told: dict[str, str] = {}
    rows = [row for row in recent if row.finite]
    without = {option.name for option in rule.options if option.optional}
    rate = None if isinstance(group["lr"], Tensor) else group["lr"]  # to read it is to wait
    longer = rate is not None and rate > 1.0
    scaled = bool(first) and abs(first[0].loss) >= SCALED
    if longer:
        shorter = f"lower lr, which is {rate:g} and multiplies every step"
    elif scaled:
        shorter = "hand the loss over as it is, not multiplied by a GradScaler or by hand"
    else:
        capped = isinstance(group.get("max_step"), float)
        shorter = "lower max_step or take HeavyStep" if capped else "lower lr"

    # Most batches are NaN or infinite.
    bad = [row for row in recent if not row.finite]
    if len(bad) > MOST * len(recent):
        if all(isfinite(row.loss) and row.grad_sqnorm == inf for row in bad):
            what = "finite loss and a gradient whose squared norm is beyond its number format"
            advice = "Multiply the loss by a small number, or see what makes the gradient infinite"
        else:
            what = "loss or gradient that is NaN or infinite"
            anomaly = "(torch.autograd.set_detect_anomaly), and at the data"
            advice = f"Look for the operation that makes it {anomaly}"
            if first and (longer or scaled):
                advice = f"Steps were probably too long: begin anew and {shorter}"
        told["refused"] = (
            f"{len(bad)} of {len(recent)} recent batches had a {what}: they were refused and "
            f"changed nothing. {advice}"
        )
    if len(rows) < LEAST // 2 or not first:
        return told

    # The loss stays below what was said to be its lower bound, by more than rounding.
    low = [row for row in rows if row.gap < -1e-3 * max(abs(row.loss) for row in first)]
    # A rule stands still at these losses only, and a bound may be that of most of them.
    below = len(low) > NEARLY_ALL * len(rows)
    if below:
        found = f"{low[-1].loss:g} < {low[-1].loss - low[-1].gap:g}"
        if all(row.base_step == 0.0 for row in low):
            so = (
                ": all steps are 0 and nothing is trained. Give a lower bound that no loss falls "
                "below"
            )
        elif "lower_bound" in without and not rule.searches:
            so = ": one is estimated instead. Give lower_bound=None if none is known"
        else:
            so = ", which is therefore none: steps are too small. Give one that no loss falls below"
        told["below_bound"] = f"the loss stays below its lower_bound ({found}){so}"

    # Nothing is trained, though there is something to train.
    steep = [row for row in rows if row.grad_sqnorm > 0.0]
    if len(steep) >= LEAST and all(row.base_step == 0.0 for row in steep) and not below:
        told["standing"] = (
            "all recent steps are 0 and nothing is trained, though the gradient is not 0: the loss "
            f"({steep[-1].loss:g}) stands at its lower bound, or is too small for its number "
            "format. Give a lower bound that it does not reach"
        )

    # There has never been a gradient to go along.
    known = [*first, *rows]
    still = all(max(row.grad_sqnorm, row.base_step) <= 0.0 for row in known)
    if still and all(row.loss != 0.0 and row.gap > 0.0 for row in known):
        told["vanished"] = (
            "the squared norm of the gradient is 0 at every batch so far and nothing is trained, "
            f"but the loss ({rows[-1].loss:g}) is not 0: squares of so small a gradient may be 0 "
            "in its number format. Multiply the loss by a large number, or see why it does not "
            "depend on the parameters"
        )

    # The first steps destroyed what they should improve. Losses of single batches differ: without a
    # reason for an explosion, the largest counts.
    before = first[0].loss if longer or scaled else max(row.loss for row in first)
    now = median(row.loss for row in rows[-10:])
    limit = before + (1.0 if longer else EXPLODED) * abs(before)
    exploded = steps <= 300 and before != 0.0 and now > limit
    if exploded:
        told["exploded"] = (
            f"the loss is {now:g} after {steps} steps and was {before:g} at first: the first steps "
            f"were too long. Begin anew and {shorter}"
        )

    # The step is a constant that the user set.
    held = [row for row in rows if row.base_step >= (1.0 - ROUNDING) * row.max_step]
    if steps >= SETTLED and len(held) >= NEARLY_ALL * len(rows) and not (longer or exploded):
        advice = "leave it out" if "max_step" in without else "take HeavyStep, which needs none"
        told["at_max_step"] = (
            f"{len(held)} of {len(rows)} recent steps are max_step ({held[-1].max_step:g}), which "
            f"is then a learning rate in disguise: raise max_step, or {advice}"
        )

    # Weight decay undoes what the steps do. A rule that sets it takes lambda / k at step k.
    decay = group["weight_decay"] if group["decay"] == "decoupled" else 0.0
    length = 1.0 / steps if rule.sets_decay else median(row.base_step for row in rows)
    if rate is not None and steps >= SETTLED and rate * decay * length >= EATEN:
        told["eaten"] = (
            f"weight_decay ({decay:g}) takes {rate * decay * length:.1%} of every parameter a "
            "step, and little that is older than a hundred steps remains: lower it; 0.1 is usual "
            "for HeavyStep, 5e-4 where steps are about 1"
        )

    # The norm that the rule divides by is that of clipping.
    moved = [row for row in steep if row.base_step > 0.0]
    if rule.searches or "lower_bound" not in rule.reads or len(moved) < LEAST:
        return told
    most = max(row.grad_sqnorm for row in moved)
    same = [row for row in moved if row.grad_sqnorm >= (1.0 - SAME) * most]
    losses = [row.loss for row in same]
    # Where nothing moves, the norm of one and the same batch does not change either.
    moving = max(losses) - min(losses) > 0.01 * max(map(abs, losses))
    if len(same) >= NEARLY_ALL * len(moved) and moving:
        told["clipped"] = (
            f"the gradient has norm {most**0.5:.3g} at {len(same)} of {len(moved)} recent steps, "
            "as if clipped before step(): the rule then sees the bound of clip_grad_norm_ "
            "(max_grad_norm) and not the gradient. Leave the clipping out; where the gradient is "
            "large, the rule takes small steps itself"
        )
    return told


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
        if "habit" in self._said:
            return
        names = ("lr", "initial_lr", "max_lr")  # of torch's schedulers, which note where they go
        rates = [group[name] for group in groups for name in names if name in group]
        unknown = began and self._rate is None  # a schedule may be near its end
        # To read a tensor is to wait.
        if unknown or any(isinstance(rate, Tensor) for rate in rates) or max(rates) >= HABIT:
            self._said.add("habit")
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
        """Take in one step, of which ``told`` has the fields of :class:`StepInfo`, and warn.

        ``plain`` is ||g||^2 where ``grad_sqnorm`` is in the metric of a diagonal, else None.
        """
        self._steps += 1
        steps = self._steps
        watched = steps <= RECENT or steps * PACE % 1.0 < 0.125
        if watched and _readable(told["grad_sqnorm"]):
            self._put_aside.append(_row(told, plain, group.get("max_step")))
        if self._arriving is None and self._put_aside and (steps % 100 == 0 or steps in (25, 50)):
            self._arriving, self._put_aside = _sent(self._put_aside), []
        if self._arriving is None or not (self._arriving[1] is None or self._arriving[1].query()):
            return
        rows = [Row(*five) for five in self._arriving[0].tolist()]
        self._arriving = None
        self._first += [row for row in rows if row.finite][: FIRST - len(self._first)]
        self._recent = (self._recent + rows)[-RECENT:]
        if len(self._recent) >= LEAST:
            for kind, text in findings(steps, self._first, self._recent, rule, group).items():
                self.tell(text, kind)
        if self._rate is not None and "habit" not in self._said:
            rate, since = self._rate
            if rate > 0.0 and steps - since >= RECENT:  # it is not on its way up
                self.tell(HABITUAL.format(rate), "habit")


def _readable(number: Any) -> bool:
    """True if the host can read it later; it cannot while a CUDA graph is recorded."""
    if not isinstance(number, Tensor) or number.is_cpu:
        return True
    return number.is_cuda and not torch.cuda.is_current_stream_capturing()


def _row(told: dict[str, Any], plain: Any, largest: Any) -> Any:
    """The numbers of a :class:`Row`, where they are."""
    loss = 0.0 if told["loss"] is None else told["loss"]
    bound = -inf if told["lower_bound"] is None else told["lower_bound"]
    norm = told["grad_sqnorm"] if plain is None else plain
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
