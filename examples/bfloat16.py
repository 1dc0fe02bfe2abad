"""Parameters and state in bfloat16, rounded at random: half the memory, and the loss of float32.

``python examples/bfloat16.py`` prints a table (``--quick`` for a short run). A hundred million
parameters, on a GPU: ``--width 1024 --layers 8 --steps 1000 --device cuda``.
"""

import argparse
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import torch
from parts import GPT, excerpts, manual, row

from heavystep import HeavyStep

RUNS: dict[str, tuple[torch.dtype, dict[str, Any]]] = {
    "float32": (torch.float32, {}),
    "bfloat16, state in float32": (torch.bfloat16, {}),
    "stochastic rounding": (torch.bfloat16, {"stochastic_rounding": True}),
    "float32, a diagonal of tensors": (torch.float32, {"diagonal": "tensor"}),
    "stochastic rounding, a diagonal of tensors": (
        torch.bfloat16,
        {"stochastic_rounding": True, "diagonal": "tensor"},
    ),
}


def train(dtype: torch.dtype, options: dict[str, Any], words: argparse.Namespace) -> list[float]:
    """Bytes of weights, gradients and state for a parameter; the mean of the last losses."""
    torch.manual_seed(0)
    model = GPT(layers=words.layers, width=words.width).to(words.device, dtype)
    opt = HeavyStep(model.parameters(), **options)
    text, losses = manual().to(words.device), []
    for _ in range(words.steps):
        opt.zero_grad()
        _, loss = model(*excerpts(text, 16))
        loss.backward()
        opt.step(loss=loss)
        losses.append(loss.detach())
    params = list(model.parameters())
    kept = [each for param in params for each in opt.state[param].values()]
    held = sum(each.nbytes for each in (*params, *params, *kept))  # a gradient is as its parameter
    size = sum(param.numel() for param in params)
    return [size / 1e6, held / size, fmean(map(float, losses[-words.steps // 5 :]))]


def main(words: Sequence[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description="bfloat16 with stochastic rounding.")
    parser.add_argument("--quick", action="store_true", help="a short run")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args(words)
    torch.set_num_threads(1)
    if arguments.quick:
        arguments.steps = 30
    losses = {}
    row("format", "million parameters", "bytes a parameter", "loss")
    row("---", *["---"] * 3)
    for name, (dtype, options) in RUNS.items():
        found = train(dtype, options, arguments)
        row(name, *found)
        losses[name] = found[-1]
    return losses


if __name__ == "__main__":
    main()
