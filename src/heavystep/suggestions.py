"""Tries the main methods on a model for a few hundred steps, and says which one to use."""

import random
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, islice
from math import isfinite, sqrt
from statistics import fmean, median, stdev
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_map_only

from heavystep.methods import method_of
from heavystep.optim.closure import Replay
from heavystep.optimizers import WRITTEN, create
from heavystep.validation import choice, integer

MAIN: tuple[tuple[str, Mapping[str, Any]], ...] = (
    *(("HeavyStep", {"diagonal": metric}) for metric in ("element", "tensor", None)),
    ("SHBPolyak", {}),
    ("SHBArmijo", {}),
)
"""The methods that are tried unless the user names others."""
LOOKS = 5
"""Validations of a trial; a training loss is the mean over the last fifth of the steps."""
SURE = 2.0
"""A loss is lower than another if so many standard errors lie between them (chance: 2%)."""
WARM_UP = 3
"""Steps that are not timed: memory is reserved and kernels are chosen in the first ones."""
BACKWARD = 2.0
"""The cost of a backward, in forwards: a product for the weights and one for the inputs."""
HEADING = (
    "method", "loss", "at equal cost", "ms a step", "forwards a step", "state MiB", "refused"
)  # fmt: skip


class Tail(NamedTuple):
    """The mean of losses and its standard error."""

    mean: float
    error: float

    @classmethod
    def of(cls, losses: Sequence[float]) -> "Tail":
        """Infinite if one of them is not finite.

        >>> Tail.of([1.0, 3.0])
        Tail(mean=2.0, error=1.0)
        """
        if not all(map(isfinite, losses)):
            return cls(float("inf"), 0.0)
        return cls(fmean(losses), stdev(losses) / sqrt(len(losses)) if len(losses) > 1 else 0.0)

    def clearly_below(self, other: "Tail") -> bool:
        """True if the difference is larger than the noise of the batches could make it."""
        return self.mean < other.mean - SURE * sqrt(self.error**2 + other.error**2)


@dataclass(frozen=True)
class Trial:
    """The run of one method."""

    method: str
    """Its name, and the options that were set."""
    losses: tuple[float, ...]
    """The loss of each batch, before the step that was taken on it."""
    costs: tuple[float, ...]
    """The cost of each step in forwards of the model: one, two for the backward, and trials."""
    seconds: float
    """The median wall time of a step, without the loader."""
    refused: int
    """Batches that the optimizer refused, because loss or gradient was not finite."""
    state_memory: int
    """Bytes that the optimizer keeps from step to step."""
    warnings: tuple[str, ...]
    validated: tuple[tuple[int, Tail], ...] = ()
    """Steps taken, and the validation loss there, from before the first step on."""
    code: str = ""
    """The line that makes the optimizer."""

    @property
    def forwards(self) -> float:
        """Losses that were evaluated, a step."""
        return sum(self.costs) / len(self.costs) - BACKWARD

    def level(self, budget: float) -> Tail:
        """The validation loss when the budget is spent; without one the last training losses."""
        steps = max(sum(cost <= budget for cost in accumulate(self.costs)), 1)
        if self.validated:
            return [loss for at, loss in self.validated if at <= steps][-1]
        return Tail.of(self.losses[:steps][-max(steps // LOOKS, 1) :])

    def start(self) -> Tail:
        """The loss before training; of training losses the mean of the first fifth."""
        if self.validated:
            return self.validated[0][1]
        return Tail.of(self.losses[: max(len(self.losses) // LOOKS, 1)])


@dataclass(frozen=True)
class Suggestion:
    """The trials, and which method to use. ``print`` it for the table."""

    trials: tuple[Trial, ...]
    best: str | None
    """The method to use; None if no method got below where it began."""
    reason: str

    @property
    def code(self) -> str:
        """Code that makes the optimizer; empty if there is none to use."""
        return next((trial.code for trial in self.trials if trial.method == self.best), "")

    def __str__(self) -> str:
        budget = equal_cost(self.trials)
        rows = [HEADING]
        for trial in self.trials:
            last, equal = (f"{trial.level(cost).mean:.4g}" for cost in (float("inf"), budget))
            speed, forwards = f"{trial.seconds * 1e3:.2f}", f"{trial.forwards:.2f}"
            memory = f"{trial.state_memory / 2**20:.2f}"
            rows.append((trial.method, last, equal, speed, forwards, memory, str(trial.refused)))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.rjust, row, widths)) for row in rows]
        notes = [f"{trial.method}: {text}" for trial in self.trials for text in trial.warnings]
        return "\n".join([*lines, *notes, self.reason, *([self.code] if self.code else [])])


def suggest(
    model: nn.Module, loader: Iterable[Any], loss_fn: Callable[..., Any], *,
    validation_loader: Iterable[Any] | None = None, steps: int = 300,
    methods: Iterable[Any] = MAIN, takes_batch: bool = False,
) -> Suggestion:  # fmt: skip
    """Try the main methods with nothing set, from the same start, and say which one to use.

    Each takes the same number of steps on the same batches. Methods are compared after equal work,
    in which a trial of a line search counts as a forward: by the validation loss where there is a
    ``validation_loader``, else by the mean training loss of the last steps. If noise could explain
    a difference, the cheaper one wins. The reason says which loss was used.

    Afterwards parameters, gradients, buffers, modes and the global random streams are as they were,
    to the bit, also if something raises. The batches of all steps are taken from the loader first
    and held in memory; the model sees copies of them. A model that is not in training mode is tried
    in it.

    Args:
        model: on the device where it is to be trained.
        loader: a DataLoader, a list, or anything that gives batches; asked again when it ends.
        loss_fn: called as ``loss_fn(model(*inputs), target)``, where a batch is ``(*inputs,
            target)``. Tensors are moved to the device of the model.
        validation_loader: batches that are not trained on; the model sees them in eval mode, six
            times a trial.
        steps: how many steps each method takes, >= 10.
        methods: names of ``heavystep methods``, or pairs of a name and a dict of its options.
        takes_batch: call ``loss_fn(model, batch)`` instead, for batches of another form.

    Returns:
        A :class:`Suggestion`: print it for a table of losses, times, forwards and memory. ``best``
        is the method, ``code`` the line that makes it.

    Raises:
        TypeError: a batch has another form.
        ValueError: a loader gives too few batches, or there is nothing to train.

    >>> import torch
    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Linear(3, 1)
    >>> x = torch.randn(64, 3)
    >>> loader = list(zip(x.split(8), (x.sum(1, keepdim=True) + 1).split(8)))
    >>> found = suggest(model, loader, torch.nn.functional.mse_loss, steps=100,
    ...                 methods=["SHBPolyak", "SHBArmijo"])
    >>> [trial.method for trial in found.trials], found.best in found.code
    (['SHBPolyak', 'SHBArmijo'], True)
    """
    integer("steps", steps, least=10)
    choice("takes_batch", takes_batch, (False, True))
    listed = [methods] if isinstance(methods, str) else list(methods)
    rows = [(each, {}) if isinstance(each, str) else (each[0], dict(each[1])) for each in listed]
    if not rows:
        raise ValueError("methods must name at least one method")
    for name, _ in rows:
        method_of(name)
    if any(is_lazy(tensor) for tensor in (*model.parameters(), *model.buffers())):
        raise ValueError("model has lazy parameters: give it a batch first, so that they are there")
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not trained:
        raise ValueError("model has no parameter that is to be trained")

    def loss_of(batch: Any) -> Any:
        if takes_batch:
            return loss_fn(model, batch)
        if not isinstance(batch, (list, tuple)) or len(batch) < 2:
            raise TypeError(
                f"a batch must be (*inputs, target), got {type(batch).__name__}: with "
                "takes_batch=True loss_fn(model, batch) is called instead"
            )
        *inputs, target = batch
        return loss_fn(model(*inputs), target)

    with unchanged(model, trained[0].device):
        batches = first_batches(loader, steps)
    trials = []
    for name, options in rows:
        with unchanged(model, trained[0].device), torch.enable_grad():
            model.zero_grad(set_to_none=True)
            if not model.training:
                model.train()
            trials.append(
                run_trial(name, options, model, trained, batches, validation_loader, loss_of)
            )
    return suggestion_of(tuple(trials))


@contextmanager
def unchanged(model: nn.Module, device: torch.device) -> Iterator[None]:
    """Afterwards the tensors and modes of a model and the global random streams are as before."""
    tensors = [*model.parameters(), *model.buffers()]
    grads = [tensor.grad for tensor in tensors]
    modes = [(module, module.training) for module in model.modules()]
    replay = Replay(device, tensors)
    found = replay.state(), random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        with torch.no_grad():
            replay.restore(found[0])
        for tensor, grad in zip(tensors, grads, strict=True):
            tensor.grad = grad
        for module, mode in modes:
            module.training = mode
        random.setstate(found[1])
        np.random.set_state(found[2])  # noqa: NPY002


def first_batches(loader: Iterable[Any], steps: int) -> list[Any]:
    """So many batches, from the beginning again whenever the loader ends."""
    taken: list[Any] = []
    while len(taken) < steps:
        before = len(taken)
        taken += islice(loader, steps - before)
        if len(taken) == before:
            again = "no batch" if not taken else f"{before} batches once, and none the second time"
            raise ValueError(f"loader must give batches each time it is asked, it gave {again}")
    return taken


def equal_cost(trials: tuple[Trial, ...]) -> float:
    """Cost of the cheapest trial: all methods are compared after as much work."""
    return min((sum(trial.costs) for trial in trials), default=0.0)


def suggestion_of(trials: tuple[Trial, ...]) -> Suggestion:
    """The method with the lowest loss after equal work, cheapest of those level with it."""
    budget = equal_cost(trials)
    ends = [(trial, trial.level(budget)) for trial in trials]
    fell = [(trial, end) for trial, end in ends if end.mean < trial.start().mean]
    if not fell:
        none = (
            "No method got below where it began: take more steps, and see whether the loss and "
            "its lower bound are what you think."
        )
        return Suggestion(trials, None, none)
    lowest = min((end for _, end in fell), key=lambda end: end.mean)
    level = [trial for trial, end in fell if not lowest.clearly_below(end)]
    chosen = min(level, key=lambda trial: sum(trial.costs))
    others = [trial.method for trial in level if trial is not chosen]
    kind = "validation loss" if chosen.validated else "training loss"
    why = f"the lowest {kind} after equal work"
    if others:
        why = f"as low a {kind} as {' and '.join(others)} up to noise, and no step costs less"
    unseen = "" if chosen.validated else " No unseen data were looked at (validation_loader)."
    reason = (
        f"Use {chosen.method}: {why}, in {len(chosen.losses)} steps. "
        f"That is how training begins, not how it ends.{unseen}"
    )
    return Suggestion(trials, chosen.method, reason)


def run_trial(
    name: str, options: Mapping[str, Any], model: nn.Module, trained: list[nn.Parameter],
    batches: Sequence[Any], validation_loader: Iterable[Any] | None, loss_of: Callable[[Any], Any],
) -> Trial:  # fmt: skip
    """Take a step on each batch with a method; nothing is put back."""
    device, searches = trained[0].device, method_of(name).rule.searches
    opt = create(name, trained, **options, **({"buffers": model.buffers()} if searches else {}))
    losses: list[float] = []
    costs, seconds, refused, validated = [], [], 0, []
    looks = {round(len(batches) * part / LOOKS) for part in range(LOOKS + 1)}

    def look() -> None:
        if validation_loader is not None and len(losses) in looks:
            unseen = (moved(batch, device) for batch in validation_loader)
            validated.append((len(losses), validation_loss(model, unseen, loss_of)))

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        look()
        for batch in batches:
            copied = moved(batch, device)
            begun = time.perf_counter()
            opt.step(partial(loss_of, copied))
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            seconds.append(time.perf_counter() - begun)
            info = opt.info
            assert info is not None
            losses.append(float(info.loss))
            costs.append(1 + info.trials + BACKWARD)
            refused += not bool(info.accepted)
            look()
    held = [value for state in opt.state.values() for value in state.values()]
    given = ", ".join(f"{key}={value!r}" for key, value in options.items())
    return Trial(
        method=f"{name}({given})" if options else name,
        losses=tuple(losses),
        costs=tuple(costs),
        seconds=median(seconds[WARM_UP:] or seconds),
        refused=refused,
        state_memory=sum(value.nbytes for value in held if isinstance(value, Tensor)),
        warnings=tuple(dict.fromkeys(str(each.message) for each in said)),
        validated=tuple(validated),
        code=code_of(name, given),
    )


def code_of(name: str, options: str) -> str:
    """The line that makes the optimizer."""
    method = method_of(name)
    made = f"{name}(" if method in WRITTEN else f'create("{name}", '
    buffers = "buffers=model.buffers()" if method.rule.searches else ""
    arguments = ", ".join(filter(None, ["model.parameters()", options, buffers]))
    return f"opt = heavystep.{made}{arguments})"


def moved(batch: Any, device: torch.device) -> Any:
    """A copy on the device, so that nobody changes what the loader holds."""
    return tree_map_only(Tensor, lambda part: part.detach().to(device, copy=True), batch)


def validation_loss(
    model: nn.Module, batches: Iterable[Any], loss_of: Callable[[Any], Any]
) -> Tail:
    """The loss in eval mode; modes are as they were afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    with torch.no_grad():
        losses = [float(loss_of(batch)) for batch in batches]
    for module, mode in modes:
        module.training = mode
    if not losses:
        raise ValueError("validation_loader must give batches each time, it gave none")
    return Tail.of(losses)
