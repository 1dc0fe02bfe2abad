"""What the last step did, and what goes wrong in a run: one line each, with what to do.

At the first steps and at an eighth of the later ones a few numbers are put aside where they are, on
the device. A few dozen of them at once are copied to the host, and read at a later step, when they
have arrived. No number of the run depends on it, and it is no part of any state. Not watched: steps
within ``torch.compile``, graphs that the user recorded, and devices other than CPUs and CUDA.
"""

import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from math import inf, isfinite
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor

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
    """Whether the step is the largest that the caps of the rule allowed; :attr:`cap` says which."""
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
SHARE = 0.125
EARLY, EVERY = (25, 50), 100
"""Steps at which rows are sent to the host."""
LEAST = 20  # rows before anything is said
MOST, NEARLY_ALL = 0.5, 0.9
EXPLODED = 30.0
"""How far above its first values a loss is that exploded, in units of them; 1 where lr is above
1, which is a reason."""
BEGINNING = 300  # steps in which an explosion is looked for
SETTLED = 200  # steps after which a step that is still the largest one is there to stay
BELOW = 1e-3  # a loss counts as below its bound if it is by more than this share of the first loss
YOUNG = 10  # steps in which a forgotten zero_grad is looked for
SCALED = 1024.0
"""A loss that is this large was probably multiplied by a GradScaler, which begins at 65536."""
EATEN = 0.01
"""The share of a weight that decay takes a step: after 100 steps a third is left. SGD with 0.1 and
5e-4 takes 5e-5, AdamW with 1e-3 and 0.1 takes 1e-4."""
HABIT = 0.1
"""Multipliers below it, at their largest, were meant as learning rates: the rule's own length, of
which they would leave less than a tenth, has been within a factor of 3 of the best in all runs."""
SAME = 1e-4
"""Squared norms within this of each other are the same: clipping leaves a little less than 1."""


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


def refused(story: Story) -> str | None:
    """Most batches are NaN or infinite."""
    bad = [row for row in story.recent if not row.finite]
    if len(bad) <= MOST * len(story.recent):
        return None
    if all(isfinite(row.loss) and row.grad_sqnorm == inf for row in bad):
        return (
            f"{len(bad)} of {len(story.recent)} recent batches had a finite loss and a gradient "
            "whose squared norm is beyond its number format: they were refused and changed "
            "nothing. Multiply the loss by a small number, or see what makes the gradient infinite"
        )
    advice = (
        "Look for the operation that makes it (torch.autograd.set_detect_anomaly), and at the data"
    )
    if story.first and (multiplied(story) or scaled(story)):
        advice = f"Steps were probably too long: begin anew and {shorter(story)}"
    return (
        f"{len(bad)} of {len(story.recent)} recent batches had a loss or gradient that is NaN or "
        f"infinite: they were refused and changed nothing. {advice}"
    )


def multiplied(story: Story) -> bool:
    """Whether the user made every step longer."""
    rate = story.group["lr"]
    return not isinstance(rate, Tensor) and rate > 1.0


def scaled(story: Story) -> bool:
    """Whether losses are as large as those that a GradScaler has multiplied."""
    return abs(story.first[0].loss) >= SCALED


def shorter(story: Story) -> str:
    """How steps that were too long become shorter."""
    rate = story.group["lr"]
    if multiplied(story):
        return f"lower lr, which is {rate:g} and multiplies every step"
    if scaled(story):
        return "hand the loss over as it is, not multiplied by a GradScaler or by hand"
    capped = isinstance(story.group.get("max_step"), float)
    return "lower max_step or take HeavyStep" if capped else "lower lr"


def below_bound(story: Story) -> str | None:
    """The loss stays below what was said to be its lower bound."""
    rows, scale = story.usable, max(abs(row.loss) for row in story.first)
    low = [row for row in rows if row.gap < -BELOW * scale]
    # A rule stands still at these losses only, and a bound may be that of most of them.
    if len(low) <= NEARLY_ALL * len(rows):
        return None
    found = (
        f"the loss stays below its lower_bound ({low[-1].loss:g} < {low[-1].loss - low[-1].gap:g})"
    )
    if all(row.base_step == 0.0 for row in low):
        return (
            f"{found}: all steps are 0 and nothing is trained. Give a lower bound that no loss "
            "falls below"
        )
    estimates = any(o.name == "lower_bound" and o.optional for o in story.rule.options)
    if estimates and not story.rule.searches:
        return f"{found}: one is estimated instead. Give lower_bound=None if none is known"
    return (
        f"{found}, which is therefore none: steps are too small. Give one that no loss falls below"
    )


def standing(story: Story) -> str | None:
    """Nothing is trained, though there is something to train."""
    rows = [row for row in story.usable if row.grad_sqnorm > 0.0]
    if len(rows) < LEAST or any(row.base_step > 0.0 for row in rows):
        return None
    return (
        "all recent steps are 0 and nothing is trained, though the gradient is not 0: the loss "
        f"({rows[-1].loss:g}) stands at its lower bound, or is too small for its number format. "
        "Give a lower bound that it does not reach"
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
    if story.steps < SETTLED or len(held) < NEARLY_ALL * len(rows) or multiplied(story):
        return None
    none = any(o.name == "max_step" and o.optional for o in story.rule.options)
    advice = "leave it out" if none else "take HeavyStep, which needs none"
    return (
        f"{len(held)} of {len(rows)} recent steps are max_step ({held[-1].max_step:g}), which is "
        f"then a learning rate in disguise: raise max_step, or {advice}"
    )


def exploded(story: Story) -> str | None:
    """The first steps destroyed what they should improve."""
    # Losses of single batches differ; without a reason for an explosion, the largest counts.
    known = multiplied(story) or scaled(story)
    before = story.first[0].loss if known else max(row.loss for row in story.first)
    now = median(row.loss for row in story.usable[-10:])
    factor = 1.0 if multiplied(story) else EXPLODED
    if story.steps > BEGINNING or before == 0.0 or now <= before + factor * abs(before):
        return None
    return (
        f"the loss is {now:g} after {story.steps} steps and was {before:g} at first: the first "
        f"steps were too long. Begin anew and {shorter(story)}"
    )


def eaten(story: Story) -> str | None:
    """Weight decay undoes what the steps do."""
    decay, rate = story.group["weight_decay"], story.group["lr"]
    if story.group["decay"] != "decoupled" or isinstance(rate, Tensor) or story.steps < SETTLED:
        return None
    if story.rule.averages:  # lambda / k at step k, whatever the step
        share = rate * decay / story.steps
    else:
        share = rate * decay * median(row.base_step for row in story.usable)
    if share < EATEN:
        return None
    return (
        f"weight_decay ({decay:g}) takes {share:.1%} of every parameter a step, and little that "
        "is older than a hundred steps remains: lower it; 0.1 is usual for HeavyStep, 5e-4 where "
        "steps are about 1"
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
        "clipped before step(): the rule then sees the bound of clip_grad_norm_ (max_grad_norm) "
        "and not the gradient. Leave the clipping out; where the gradient is large, the rule takes "
        "small steps itself"
    )


FINDINGS: dict[str, Callable[[Story], str | None]] = {
    "refused": refused,
    "below_bound": below_bound,
    "standing": standing,
    "vanished": vanished,
    "at_max_step": at_max_step,
    "exploded": exploded,
    "eaten": eaten,
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
    if told.get("exploded"):
        told.pop("at_max_step", None)
    return {kind: text for kind, text in told.items() if text is not None}


class Watch:
    """What one optimizer has seen of its run, and what it has said."""

    def __init__(self) -> None:
        self._steps = 0
        self._put_aside: list[tuple[Any, float]] = []
        self._arriving: tuple[Any, list[float], Any] | None = None
        self._first: list[Row] = []
        self._recent: list[Row] = []
        self._said: set[str] = set()
        self._rate: tuple[float, int] | None = None
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
        """Take in learning rates that are new, of a method that multiplies its own step by them.

        One that has not grown for ``RECENT`` steps is not on its way up.

        Args:
            groups: all parameter groups; torch's schedulers note where they begin and rise to.
            began: whether training had begun before, so that a schedule may be near its end.
        """
        if "habit" in self._said:
            return
        names = ("lr", "initial_lr", "max_lr")
        rates = [group[name] for group in groups for name in names if name in group]
        begins = self._rate is None
        if (began and begins) or any(isinstance(rate, Tensor) for rate in rates):
            self._said.add("habit")  # nothing is known, and to read a tensor is to wait
            return
        largest = max(rates)
        if self._rate is None or largest > self._rate[0]:
            self._rate = largest, self._steps
        if largest >= HABIT:
            self._said.add("habit")

    def see_gradient(self, grad: Tensor) -> None:
        """Look, at the first steps, whether gradients are added to and never zeroed.

        Args:
            grad: of the first parameter that has one, at a step that is given its loss.
        """
        place, version = id(grad), grad._version
        added = (place, version - 1) == self._gradient and not self.zeroed
        self._added_up = self._added_up + 1 if added else 0
        self._gradient, self.zeroed = (place, version), False
        if self._added_up == 3:
            self.tell(ADDED_UP)
        self.young = self._steps < YOUNG

    def see(self, told: dict[str, Any], plain: Any, rule: Rule, group: dict[str, Any]) -> None:
        """Take in one step, and warn of what has come to light.

        Args:
            told: the fields of :class:`StepInfo`.
            plain: ||g||^2 where ``grad_sqnorm`` is in the metric of a diagonal, or None.
            rule: that chose the step.
            group: its options.
        """
        self._steps += 1
        steps = self._steps
        if steps <= RECENT or steps * PACE % 1.0 < SHARE:
            loss, bound = told["loss"], told["lower_bound"]
            norm, step = told["grad_sqnorm"] if plain is None else plain, told["base_step"]
            on_device = isinstance(norm, Tensor)
            if on_device and not (
                norm.is_cpu or (norm.is_cuda and not torch.cuda.is_current_stream_capturing())
            ):
                return
            if loss is None:
                loss = torch.zeros_like(norm) if on_device else 0.0
            four: Any = (loss, loss - (-inf if bound is None else bound), norm, step)
            if on_device:  # a copy: the next replay of a graph writes to where the fields are
                four = torch.stack(four)
            largest = group.get("max_step")
            self._put_aside.append((four, inf if largest is None else float(largest)))
        if self._arriving is None and (steps % EVERY == 0 or steps in EARLY) and self._put_aside:
            self._send()
        if self._arriving is not None and (self._arriving[2] is None or self._arriving[2].query()):
            numbers, largest_steps, _ = self._arriving
            self._arriving = None
            listed = numbers.tolist() if isinstance(numbers, Tensor) else numbers
            pairs = zip(listed, largest_steps, strict=True)
            rows = [Row(*four)._replace(max_step=largest) for four, largest in pairs]
            self._first += [row for row in rows if row.finite][: FIRST - len(self._first)]
            self._recent = (self._recent + rows)[-RECENT:]
            story = Story(steps, self._first, self._recent, rule, group)
            for kind, text in found_in(story).items():
                self.tell(text, kind)
            if self._rate is not None and "habit" not in self._said:
                rate, since = self._rate
                if rate > 0.0 and steps - since >= RECENT:
                    self.tell(HABITUAL.format(rate), "habit")

    def _send(self) -> None:
        """Begin to bring what was put aside to the host."""
        last = self._put_aside[-1][0]
        # The parameters may have moved to another device, or taken another format.
        alike = [(n, largest) for n, largest in self._put_aside if _place(n) == _place(last)]
        numbers: Any = [n for n, _ in alike]
        event: Any = None
        if isinstance(last, Tensor):
            numbers = torch.stack(numbers)
            if last.is_cuda:
                packed = numbers
                numbers = torch.empty(packed.shape, dtype=packed.dtype, pin_memory=True)
                numbers.copy_(packed, non_blocking=True)
                event = torch.cuda.Event()  # type: ignore[no-untyped-call]
                event.record(torch.cuda.current_stream(last.device))
        self._arriving = numbers, [largest for _, largest in alike], event
        self._put_aside = []


def _place(numbers: Any) -> Any:
    return (numbers.device, numbers.dtype) if isinstance(numbers, Tensor) else None
