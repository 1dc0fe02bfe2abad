"""Step cost and memory of the optimizers against torch.optim.SGD, as ratios in one run.

Run with ``make bench`` or ``python benchmarks/step_cost.py [--device cuda]``. Gradients are
fixed and closures return a constant, so that only the optimizers' own work is timed. Each
round times every optimizer once and gives one ratio to SGD; the table shows medians over
rounds, which a change of the machine's speed between rounds does not move.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor

import heavystep

TARGETS = {"SHBPolyak": 1.6, "SHBArmijo": 2.5}


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
    "ResNet-18 (62 tensors)": resnet18_shapes(),
    "1,000 small tensors": [(32,)] * 1000,
}


def parameters(shapes: list[tuple[int, ...]], device: str) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    params = []
    for shape in shapes:
        param = torch.randn(shape, generator=generator).to(device).requires_grad_()
        param.grad = 1e-3 * torch.randn(shape, generator=generator).to(device)
        params.append(param)
    return params


def steppers(shapes: list[tuple[int, ...]], device: str) -> dict[str, Callable[[], object]]:
    """One callable a method, each on parameters of its own."""
    loss = torch.tensor(1.0, device=device)
    torch_sgd = {"SGD(foreach)": {"foreach": True}, "SGD(fused)": {"fused": True}}
    calls: dict[str, Callable[[], object]] = {}
    for name, options in torch_sgd.items():
        sgd = torch.optim.SGD(parameters(shapes, device), lr=1e-3, momentum=0.9, **options)
        calls[name] = sgd.step
    shb = heavystep.SHB(parameters(shapes, device), lr=1e-3)
    calls["SHB"] = shb.step
    polyak = heavystep.SHBPolyak(parameters(shapes, device), max_step=1e-3)
    calls["SHBPolyak"] = lambda: polyak.step(loss=loss)
    armijo = heavystep.SHBArmijo(parameters(shapes, device), max_step=1e-3)
    # A detached loss says that p.grad belongs to it; falling losses accept the first trial.
    losses = iter(lambda: 0.0, 1.0)
    falling = torch.tensor(1.0, device=device)

    def closure() -> Tensor:
        next(losses)
        return falling.mul_(0.999).clone()

    calls["SHBArmijo"] = lambda: armijo.step(closure)
    return calls


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def timed(call: Callable[[], object], device: str, repeats: int) -> float:
    wait(device)
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    wait(device)
    return (time.perf_counter() - start) / repeats


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--rounds", type=int, default=40)
    arguments = parser.parse_args()
    for workload, shapes in WORKLOADS.items():
        calls = steppers(shapes, arguments.device)
        for call in calls.values():
            timed(call, arguments.device, 5)
        rounds = [
            {name: timed(call, arguments.device, 5) for name, call in calls.items()}
            for _ in range(arguments.rounds)
        ]
        print(workload)
        for name in calls:
            ratio = median(r[name] / r["SGD(foreach)"] for r in rounds)
            print(f"  {name:14s} {1e3 * median(r[name] for r in rounds):8.3f} ms {ratio:6.2f}")


if __name__ == "__main__":
    main()
