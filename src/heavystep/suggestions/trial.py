"""One method on a model for some steps, with what it cost."""

import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from heavystep.methods import method_of
from heavystep.optimizers import create
from heavystep.optim.optimizer import RuleOptimizer

LossOf = Callable[[Any], Any]
"""The loss of a batch."""
WARM_UP = 3
"""Steps that are not timed: memory is reserved and kernels are chosen in the first ones."""
BACKWARD = 2.0
"""What a backward costs, in forwards."""


@dataclass(frozen=True)
class Trial:
    """What one method did; numbers of memory are bytes."""

    method: str
    losses: tuple[float, ...]
    """The loss of each batch, before the step that was taken on it."""
    costs: tuple[float, ...]
    """What each step cost, in forwards of the model: one, two for the backward, and trials."""
    seconds: float
    """The median wall time of a step, without the loader."""
    refused: int
    """Batches that the optimizer refused, because loss or gradient was not finite."""
    state_memory: int
    """What the optimizer keeps from step to step."""
    peak_memory: int | None
    """The most that was allocated on a GPU above what was there before; None on a CPU."""
    warnings: tuple[str, ...]
    """What the optimizer had to say."""

    @property
    def forwards(self) -> float:
        """Losses that were evaluated, a step."""
        return sum(self.costs) / len(self.costs) - BACKWARD


def run_trial(
    name: str, model: nn.Module, loader: Iterable[Any], loss_of: LossOf, steps: int
) -> Trial:
    """Take some steps with a method that has nothing set. Nothing is put back.

    Args:
        name: of the method.
        model: what is trained.
        loader: gives batches, as often as it is asked for them.
        loss_of: the loss of a batch that is on the device of the model.
        steps: how many.
    """
    device = device_of(model)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    searches = method_of(name).rule.searches
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device) if on_gpu else 0
    opt = create(name, trained, **({"buffers": model.buffers()} if searches else {}))
    losses, costs, seconds, refused = [], [], [], 0
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for batch in cycled(loader, steps):
            took, evaluated = timed_step(opt, moved(batch, device), loss_of, device)
            info = opt.info
            assert info is not None
            losses.append(float(info.loss))
            costs.append(evaluated + BACKWARD)
            seconds.append(took)
            refused += not bool(info.accepted)
    return Trial(
        name,
        tuple(losses),
        tuple(costs),
        median(seconds[WARM_UP:] or seconds),
        refused,
        state_memory(opt),
        torch.cuda.max_memory_allocated(device) - before if on_gpu else None,
        tuple(dict.fromkeys(str(each.message) for each in said)),
    )


def timed_step(
    opt: RuleOptimizer, batch: Any, loss_of: LossOf, device: torch.device
) -> tuple[float, int]:
    """Take a step; return its wall time and how many losses were evaluated."""
    evaluated = 0

    def closure() -> Any:
        nonlocal evaluated
        evaluated += 1
        return loss_of(batch)

    begun = time.perf_counter()
    opt.step(closure)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - begun, evaluated


def cycled(loader: Iterable[Any], steps: int) -> Iterator[Any]:
    """So many batches, from the beginning again whenever the loader ends.

    Raises:
        ValueError: the loader gives none, or none a second time.
    """
    given = 0
    while True:
        before = given
        for batch in loader:
            yield batch
            given += 1
            if given == steps:
                return
        if given == before:
            again = "no batch" if not given else f"{given} batches once, and none the second time"
            raise ValueError(f"loader must give batches each time it is asked, it gave {again}")


def moved(batch: Any, device: torch.device) -> Any:
    """A copy of a batch on a device, so that nobody changes what the loader holds."""
    if isinstance(batch, Tensor):
        return batch.detach().to(device, copy=True)
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(moved(each, device) for each in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(moved(each, device) for each in batch)
    if isinstance(batch, dict):
        return {name: moved(each, device) for name, each in batch.items()}
    return batch


def device_of(model: nn.Module) -> torch.device:
    """The device of the first parameter that is to be trained.

    Raises:
        ValueError: there is none.
    """
    for parameter in model.parameters():
        if parameter.requires_grad:
            return parameter.device
    raise ValueError("model has no parameter that is to be trained")


def state_memory(opt: RuleOptimizer) -> int:
    """The bytes of all tensors that an optimizer keeps."""
    held = [value for state in opt.state.values() for value in state.values()]
    return sum(value.nbytes for value in held if isinstance(value, Tensor))
