"""What several examples share: a small GPT, texts that Python brings along, other optimizers.

The other optimizers need ``pip install prodigyopt schedulefree``.
"""

import inspect
import math
import string
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pydoc_data import topics
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, gelu, scaled_dot_product_attention
from torch.optim import AdamW, Optimizer

from heavystep import HeavyStep

CONTEXT = 64
LETTERS = string.printable
Batch = tuple[Tensor, Tensor]


def numbers(text: str) -> Tensor:
    return torch.tensor([LETTERS.index(letter) for letter in text if letter in LETTERS])


@cache
def manual() -> Tensor:
    """English: Python's manual, 460 thousand characters."""
    return numbers("".join(topics.topics.values()))


@cache
def code() -> Tensor:
    """Source code of Python's library, as long."""
    modules = map(__import__, ("argparse", "doctest", "inspect", "tarfile", "typing"))
    return numbers("".join(map(inspect.getsource, modules)))


def excerpts(text: Tensor, count: int) -> Batch:
    """Excerpts, and the character that comes after each of theirs."""
    starts = torch.randint(len(text) - CONTEXT - 1, (count, 1)).to(text.device)
    rows = text[starts + torch.arange(CONTEXT + 1, device=text.device)]
    return rows[:, :-1], rows[:, 1:]


class Block(nn.Module):
    """Causal attention and a network of two layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        heads = self.attend(self.norm(x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        found = scaled_dot_product_attention(heads[0], heads[1], heads[2], is_causal=True)
        x = x + self.project(found.transpose(1, 2).flatten(2))
        return x + self.narrow(gelu(self.widen(self.second(x))))  # type: ignore[no-any-return]


class GPT(nn.Module):
    """Returns logits and, as the GPTs of nanoGPT and minGPT do, the loss."""

    def __init__(self, letters: int = len(LETTERS), layers: int = 2, width: int = 64) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(letters, width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, letters)
        for each in self.modules():
            if isinstance(each, (nn.Linear, nn.Embedding)):
                nn.init.normal_(each.weight, std=0.02)

    def forward(self, text: Tensor, targets: Tensor) -> Batch:
        x = self.token(text) + self.place.weight[: text.shape[1]]
        logits = self.head(self.norm(self.blocks(x)))
        wide = logits.flatten(0, 1).float()
        return logits, cross_entropy(wide, targets.flatten(), ignore_index=-1)


@torch.no_grad()
def validation(model: GPT, text: Tensor) -> float:
    """The mean loss of excerpts that are the same at every call."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return float(model(*excerpts(text, 256))[1])


def cosine(k: int, steps: int) -> float:
    """A warm-up, and a cosine down to a tenth."""
    return min((k + 1) / (0.05 * steps), 0.55 + 0.45 * math.cos(math.pi * k / steps))


class Rival(NamedTuple):
    """An optimizer, and what its users set."""

    make: Callable[..., Optimizer]
    lr: float | None = None
    """None: that of its package."""
    schedule: Callable[[int, int], float] | None = None
    """What multiplies the learning rate, from the number of the step and of all steps."""

    def optimizer(self, params: Iterable[Any]) -> Any:
        return self.make(params, **({} if self.lr is None else {"lr": self.lr}))

    def set_rate(self, optimizer: Any, k: int, steps: int) -> None:
        if self.schedule is not None and self.lr is not None:
            for group in optimizer.param_groups:
                group["lr"] = self.lr * self.schedule(k, steps)


def prodigy(params: Iterable[Any]) -> Any:
    import prodigyopt

    return prodigyopt.Prodigy(params)


def schedule_free(params: Iterable[Any], lr: float) -> Any:
    import schedulefree

    made = schedulefree.AdamWScheduleFree(params, lr=lr)
    made.train()
    return made


RIVALS = {
    "AdamW, schedule": Rival(AdamW, 1e-3, cosine),
    "AdamW": Rival(AdamW, 1e-3),
    "Prodigy": Rival(prodigy),
    "Schedule-Free": Rival(schedule_free, 2.5e-3),
    "HeavyStep": Rival(HeavyStep),
}
"""With the defaults of their packages; HeavyStep has nothing set."""


@contextmanager
def evaluating(optimizer: Any) -> Iterator[None]:
    """Schedule-Free has other parameters for an evaluation."""
    if hasattr(optimizer, "eval"):
        optimizer.eval()
    yield
    if hasattr(optimizer, "train"):
        optimizer.train()


def row(name: str, *found: Any) -> None:
    """One row of a table in Markdown."""
    cells = (f"{each:.3f}" if isinstance(each, float) else str(each) for each in found)
    print(f"| {name} | {' | '.join(cells)} |", flush=True)
