"""Character models on Tiny Shakespeare: nanoGPT's two sizes."""

from functools import cache, partial

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from heavystep.bench.tasks.batches import stream_of
from heavystep.bench.tasks.contract import (
    EVALUATION_SEED,
    LOWER,
    Measured,
    Metric,
    Size,
    Task,
    Work,
)
from heavystep.bench.tasks.transformer import Shape, Transformer
from heavystep.data.text import load_text, missing_text

TEXT = "tinyshakespeare"
TRAIN = 0.9
"""The part of the text that is learnt from; the rest is for validation."""
SMALL = Shape(layers=4, heads=4, width=128, context=64, batch_size=12, dropout=0.0)
LARGE = Shape(layers=6, heads=6, width=384, context=256, batch_size=64, dropout=0.2)


@cache
def characters() -> tuple[Tensor, int]:
    """The text as numbers, and how many different ones there are."""
    text = load_text(TEXT)
    known = sorted(set(text))
    number = {character: place for place, character in enumerate(known)}
    return torch.tensor([number[character] for character in text]), len(known)


class LanguageModel(Work):
    """Windows of the text at random places; on a GPU in bfloat16 where autocast thinks it safe."""

    def __init__(self, shape: Shape, seed: int, device: torch.device, evaluations: int) -> None:
        text, count = characters()
        super().__init__(Transformer(count, shape), device)
        first = int(TRAIN * len(text))
        self._train, self._validation = text[:first].to(device), text[first:].to(device)
        self._shape, self._evaluations, self._stream = shape, evaluations, stream_of(seed)
        self._window = torch.arange(shape.context + 1, device=device)
        self._starts = torch.zeros(shape.batch_size, dtype=torch.int64, device=device)

    def _places(self, text: Tensor, stream: torch.Generator) -> Tensor:
        last = len(text) - self._shape.context - 1
        return torch.randint(last, (self._shape.batch_size,), generator=stream)

    def next(self) -> None:
        """Choose new windows."""
        self._starts.copy_(self._places(self._train, self._stream))

    def loss(self) -> Tensor:
        """The mean cross-entropy of the characters in the windows."""
        return self._entropy(self.forward, self._train, self._starts)

    def _entropy(self, network: object, text: Tensor, starts: Tensor) -> Tensor:
        assert callable(network)
        window = text[starts[:, None] + self._window]
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            logits = network(window[:, :-1])
        return cross_entropy(logits.float().flatten(0, 1), window[:, 1:].flatten())

    def evaluate(self) -> Measured:
        """Training and validation loss of windows that are the same each time."""
        found = []
        for text in (self._train, self._validation):
            stream = torch.Generator().manual_seed(EVALUATION_SEED)
            losses = [
                self._entropy(self.network, text, self._places(text, stream).to(self.device))
                for _ in range(self._evaluations)
            ]
            found.append(float(torch.stack(losses).mean()))
        return Measured(*found)


def language_model(shape: Shape, seed: int, device: torch.device, size: Size) -> Work:
    """A transformer of some shape."""
    return LanguageModel(shape, seed, device, size.evaluations)


def without_text() -> str:
    """One line if the text is not here, or nothing."""
    return missing_text([TEXT])


VALIDATION = Metric("validation loss", LOWER, "nats", 0.05)
LANGUAGE = (
    Task("charlm", "character model, 4 layers of 128", VALIDATION, Size(1000, 40), Size(2, 1),
         partial(language_model, SMALL), without_text),
    Task("gpt", "character GPT, 6 layers of 384", VALIDATION, Size(2500, 50), Size(20, 4),
         partial(language_model, LARGE), without_text, gpu=True),
)  # fmt: skip
