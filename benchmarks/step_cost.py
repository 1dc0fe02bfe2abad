"""Step cost and memory of the optimizers against torch.optim.SGD, as ratios in one run.

Run with ``make bench`` or ``python benchmarks/step_cost.py``; ``--device cuda`` is for a GPU,
``--save FILE`` keeps the tables for ``make performance``. Gradients are fixed and closures return a
given loss, so that only the optimizers' own work is timed;
SHBArmijo makes one trial a step. Each round times every optimizer and gives one ratio to
SGD(foreach=True); the table shows medians over rounds, which a change of the machine's speed
between rounds hardly moves. Memory is in units of the parameters' size, besides parameters
and gradients: what is kept between steps, and the peak during a step.
"""

import argparse
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from rich.table import Table
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import heavystep
from heavystep.cli.output import show
from heavystep.cli.saving import saving

TARGETS = {"SHBPolyak": 1.6, "SHBAdam": 5.0, "SHBArmijo": 2.5}
"""The largest ratios that we allow ourselves on the CPU."""


def resnet18_shapes() -> list[tuple[int, ...]]:
    """Parameter shapes of ResNet-18 for CIFAR: 3x3 stem, ten classes."""
    shapes: list[tuple[int, ...]] = [(64, 3, 3, 3), (64,), (64,)]
    channels = 64
    for width in (64, 128, 256, 512):
        for block in range(2):
            shapes += [(width, channels, 3, 3), (width,), (width,)]
            shapes += [(width, width, 3, 3), (width,), (width,)]
            if block == 0 and channels != width:
                shapes += [(width, channels, 1, 1), (width,), (width,)]
            channels = width
    return [*shapes, (10, 512), (10,)]


WORKLOADS = {
    "ResNet-18, 62 tensors": resnet18_shapes(),
    "1,000 tensors of 32": [(32,)] * 1000,
}


@dataclass
class Stepper:
    """One method on parameters of its own."""

    params: list[Tensor]
    step: Callable[[], Any]


def parameters(shapes: list[tuple[int, ...]], device: str) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    params = []
    for shape in shapes:
        param = torch.randn(shape, generator=generator).to(device).requires_grad_()
        param.grad = 1e-3 * torch.randn(shape, generator=generator).to(device)
        params.append(param)
    return params


def steppers(shapes: list[tuple[int, ...]], device: str) -> dict[str, Stepper]:
    loss = torch.tensor(1.0, device=device)

    def sgd(**options: Any) -> Stepper:
        params = parameters(shapes, device)
        return Stepper(params, torch.optim.SGD(params, lr=1e-3, momentum=0.9, **options).step)

    def adamw() -> Stepper:
        params = parameters(shapes, device)
        return Stepper(params, torch.optim.AdamW(params, lr=1e-3, foreach=True).step)

    def shb() -> Stepper:
        params = parameters(shapes, device)
        return Stepper(params, heavystep.SHB(params, lr=1e-3).step)

    def given_the_loss(method: str, **options: Any) -> Stepper:
        params = parameters(shapes, device)
        opt = heavystep.create(method, params, max_step=1e-3, **options)
        return Stepper(params, lambda: opt.step(loss=loss))

    def armijo() -> Stepper:
        params = parameters(shapes, device)
        opt = heavystep.SHBArmijo(params, max_step=1e-3)
        high, low = torch.tensor(1e6, device=device), torch.tensor(0.0, device=device)

        def step() -> None:
            # A detached loss says that p.grad belongs to it; the first trial is accepted.
            losses = iter((high, low))
            opt.step(lambda: next(losses))
            assert opt.info is not None
            assert opt.info.trials == 1

        return Stepper(params, step)

    return {
        "SGD(foreach=True)": sgd(foreach=True),
        "SGD(fused=True)": sgd(fused=True),
        "AdamW(foreach=True)": adamw(),
        "SHB": shb(),
        "SHBPolyak, paper": given_the_loss("SHBPolyak", scaling="practical"),
        "SHBPolyak": given_the_loss("SHBPolyak"),
        "SHBAdam": given_the_loss("SHBAdam"),
        "SHBArmijo": armijo(),
    }


def storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


class Allocations(TorchDispatchMode):
    """Counts the bytes of tensors made while it is active and still alive."""

    def __init__(self) -> None:
        super().__init__()
        self.live: dict[int, int] = {}
        self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        old = {storage(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor) and storage(leaf) not in old:
                self.live[id(leaf)] = leaf.untyped_storage().nbytes()
                weakref.finalize(leaf, self.live.pop, id(leaf), None)
        self.peak = max(self.peak, sum(self.live.values()))
        return result


def memory(stepper: Stepper) -> tuple[float, float]:
    """Bytes kept between steps and peak during one, in units of the parameters' size."""
    size = sum(p.numel() * p.element_size() for p in stepper.params)
    with Allocations() as allocations:
        for _ in range(3):
            stepper.step()
    return sum(allocations.live.values()) / size, allocations.peak / size


def timed(stepper: Stepper, device: str, repeats: int = 5) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        stepper.step()
    if device == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / repeats


def main() -> None:
    parser = argparse.ArgumentParser(description="Step cost against torch.optim.SGD.")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--save", type=Path, help="write the tables to this JSON file too")
    arguments = parser.parse_args()
    command = (
        f"python benchmarks/step_cost.py --device {arguments.device} --rounds {arguments.rounds}"
    )
    with saving(arguments.save, command):
        measure(arguments)


def measure(arguments: argparse.Namespace) -> None:
    for workload, shapes in WORKLOADS.items():
        usage = {name: memory(s) for name, s in steppers(shapes, arguments.device).items()}
        calls = steppers(shapes, arguments.device)
        for stepper in calls.values():
            timed(stepper, arguments.device)
        rounds = [
            {name: timed(stepper, arguments.device) for name, stepper in calls.items()}
            for _ in range(arguments.rounds)
        ]
        table = Table(title=f"{workload}, {arguments.device}, {torch.get_num_threads()} threads")
        for column in ("optimizer", "ms a step", "ratio", "to reach", "kept", "peak"):
            table.add_column(column, justify="left" if column == "optimizer" else "right")
        for name in calls:
            ratio = median(r[name] / r["SGD(foreach=True)"] for r in rounds)
            target = TARGETS.get(name) if arguments.device == "cpu" else None
            table.add_row(
                name,
                f"{1e3 * median(r[name] for r in rounds):.3f}",
                f"{ratio:.2f}",
                f"<= {target}" if target else "",
                *(f"{x:.2f}" for x in usage[name]),
            )
        show(table)


if __name__ == "__main__":
    main()
