"""What a step of the optimizers costs in time and memory, against torch.optim.SGD.

Gradients are fixed and closures return a given loss, so that only the optimizers' own work is
timed; a line search makes one trial a step. Optimizers take turns, and the shortest time of each
counts. Memory is in units of the parameters' size, besides parameters and gradients.
"""

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from heavystep.lab.cost import MEASURED, shortest
from heavystep.lab.training.networks import NETWORKS
from heavystep.optimizers import create, searches

WORKLOADS: dict[str, list[tuple[int, ...]]] = {
    "MLP, 4 tensors": [(32, 20), (32,), (10, 32), (10,)],
    "ResNet-18, 62 tensors": [tuple(p.shape) for p in NETWORKS["resnet18"](10).parameters()],
    "1,000 tensors of 32": [(32,)] * 1000,
}
REPEATS = 5
"""Steps that are timed together."""


class StepCost(NamedTuple):
    """What a step costs; ``ratio`` is to the first optimizer, ``kept`` is between steps."""

    what: str
    seconds: float
    ratio: float
    kept: float
    peak: float


class _Stepper(NamedTuple):
    params: list[Tensor]
    step: Callable[[], Any]


def _steppers(shapes: list[tuple[int, ...]], device: str) -> dict[str, _Stepper]:
    loss = torch.tensor(1.0, device=device)
    high, low = torch.tensor(1e6, device=device), torch.tensor(0.0, device=device)

    def parameters() -> list[Tensor]:
        generator, params = torch.Generator().manual_seed(0), []
        for shape in shapes:
            param = torch.randn(shape, generator=generator).to(device).requires_grad_()
            param.grad = 1e-3 * torch.randn(shape, generator=generator).to(device)
            params.append(param)
        return params

    def of_torch(kind: str, **options: Any) -> _Stepper:
        params = parameters()
        return _Stepper(params, getattr(torch.optim, kind)(params, lr=1e-3, **options).step)

    def of_ours(method: str, options: dict[str, Any]) -> _Stepper:
        params = parameters()
        opt: Any = create(method, params, **options)

        def search() -> None:
            # A detached loss says that p.grad belongs to it; the first trial is accepted.
            losses = iter((high, low))
            opt.step(lambda: next(losses))

        return _Stepper(params, search if searches(opt) else lambda: opt.step(loss=loss))

    return {
        "SGD(foreach=True)": of_torch("SGD", momentum=0.9, foreach=True),
        "SGD(fused=True)": of_torch("SGD", momentum=0.9, fused=True),
        "AdamW(foreach=True)": of_torch("AdamW", foreach=True),
        **{name: of_ours(method, options) for name, (method, options) in MEASURED.items()},
    }


def step_costs(workload: str, device: str = "cpu", rounds: int = 40) -> list[StepCost]:
    """The costs of every optimizer on one of :data:`WORKLOADS`, those of SGD first."""

    def steps(stepper: _Stepper) -> None:
        for _ in range(REPEATS):
            stepper.step()
        if device == "cuda":
            torch.cuda.synchronize()

    shapes = WORKLOADS[workload]
    usage = {name: _memory(stepper) for name, stepper in _steppers(shapes, device).items()}
    jobs = {name: partial(steps, each) for name, each in _steppers(shapes, device).items()}
    times = shortest(jobs, rounds)
    first = times["SGD(foreach=True)"]
    return [
        StepCost(name, each / REPEATS, each / first, *usage[name]) for name, each in times.items()
    ]


class _Allocations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of tensors made while it is active and still alive."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live: dict[int, int] = {}
        self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def storage(tensor: Tensor) -> int:
            return tensor.untyped_storage().data_ptr()

        result = func(*args, **(kwargs or {}))
        old = {storage(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor) and storage(leaf) not in old:
                self.live[id(leaf)] = leaf.untyped_storage().nbytes()
                weakref.finalize(leaf, self.live.pop, id(leaf), None)
        self.peak = max(self.peak, sum(self.live.values()))
        return result


def _memory(stepper: _Stepper) -> tuple[float, float]:
    """Bytes kept between steps and the peak during one, in units of the parameters' size."""
    size = sum(p.numel() * p.element_size() for p in stepper.params)
    with _Allocations() as allocations:
        for _ in range(3):
            stepper.step()
    return sum(allocations.live.values()) / size, allocations.peak / size
