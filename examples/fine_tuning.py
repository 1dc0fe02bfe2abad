"""Fine-tuning with nothing set: a small GPT goes from English to code, in 100 and 300 steps.

``python examples/fine_tuning.py`` prints a table (``--quick`` for short runs): all weights, and
adapters of low rank as PEFT puts them (LoRA), against AdamW with five learning rates, each with
the linear decay of transformers' Trainer. HeavyStep gets the parameters that are trained, and no
others.
"""

import argparse
import copy
from collections.abc import Sequence
from typing import Any

import torch
from parts import GPT, RIVALS, code, excerpts, manual, row, validation
from torch import Tensor, nn

from heavystep import HeavyStep

RATES = (2e-5, 5e-5, 1e-4, 3e-4, 1e-3)


class LoRA(nn.Module):
    """A layer that is frozen, and a product of two thin matrices that is added; it begins at 0."""

    def __init__(self, layer: nn.Linear, rank: int = 8, alpha: float = 16.0) -> None:
        super().__init__()
        self.layer, self.scale = layer.requires_grad_(False), alpha / rank
        self.down = nn.Parameter(torch.empty(rank, layer.in_features))
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank))
        nn.init.kaiming_uniform_(self.down, a=5**0.5)

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = self.layer(x) + self.scale * (x @ self.down.T @ self.up.T)
        return added


def with_adapters(model: GPT) -> GPT:
    """Adapters on all layers of the blocks; everything else is frozen."""
    model.requires_grad_(False)
    for block in model.blocks:
        for name, layer in list(block.named_children()):
            if isinstance(layer, nn.Linear):
                setattr(block, name, LoRA(layer))
    return model


def pretrained(steps: int) -> GPT:
    """A GPT that knows English, trained as others do."""
    torch.manual_seed(0)
    model, rival = GPT(), RIVALS["AdamW, schedule"]
    optimizer = rival.optimizer(model.parameters())
    for k in range(steps):
        rival.set_rate(optimizer, k, steps)
        optimizer.zero_grad()
        model(*excerpts(manual(), 16))[1].backward()
        optimizer.step()
    return model


def tuned(model: GPT, steps: int, lr: float | None) -> tuple[float, float]:
    """The losses on unseen code after ten steps and in the end; no learning rate: HeavyStep."""
    torch.manual_seed(1)
    text = code()
    train, unseen = text[: int(0.8 * len(text))], text[int(0.8 * len(text)) :]
    trained = [param for param in model.parameters() if param.requires_grad]
    optimizer: Any = HeavyStep(trained) if lr is None else torch.optim.AdamW(trained, lr=lr)
    early = 0.0
    for k in range(steps):
        if lr is not None:
            optimizer.param_groups[0]["lr"] = lr * (1 - k / steps)
        optimizer.zero_grad()
        _, loss = model(*excerpts(train, 16))
        loss.backward()
        optimizer.step(**({"loss": loss} if lr is None else {}))
        if k == 9:
            early = validation(model, unseen)
    return early, validation(model, unseen)


def main(words: Sequence[str] | None = None) -> list[tuple[float, float, float, float]]:
    parser = argparse.ArgumentParser(description="Fine-tuning and LoRA, nothing set.")
    parser.add_argument("--quick", action="store_true", help="short runs")
    quick = parser.parse_args(words).quick
    torch.set_num_threads(1)  # the network is tiny
    found = []
    before = pretrained(30 if quick else 1500)
    unseen = code()[int(0.8 * len(code())) :]
    began = validation(before, unseen)
    row("trained, steps", "before", "AdamW, best", "at lr", "HeavyStep", "after 10 steps")
    row("---", *["---"] * 5)
    for name, prepare in (("all weights", lambda model: model), ("LoRA", with_adapters)):
        for steps in (20,) if quick else (100, 300):
            losses = {
                lr: tuned(prepare(copy.deepcopy(before)), steps, lr)[1]
                for lr in (RATES[-1:] if quick else RATES)
            }
            best = min(losses, key=lambda lr: losses[lr])
            early, ours = tuned(prepare(copy.deepcopy(before)), steps, None)
            row(f"{name}, {steps}", began, losses[best], f"{best:g}", ours, early)
            found.append((began, losses[best], ours, early))
    return found


if __name__ == "__main__":
    main()
