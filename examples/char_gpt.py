"""A character GPT with nothing set: ``HeavyStep`` in place of AdamW, warm-up and cosine.

``python examples/char_gpt.py`` trains on Tiny Shakespeare (``heavystep data fetch
tinyshakespeare``), some minutes on a CPU; ``--quick`` takes a text that is made up.
"""

import argparse
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from heavystep import HeavyStep
from heavystep.lab.data import load_text

CONTEXT, BATCH, WIDTH = 64, 16, 128
MADE_UP = "to be, or not to be: that is the question. whether it is nobler to suffer or to act. "


class GPT(nn.Module):
    """Blocks of torch with a causal mask."""

    def __init__(self, characters: int, layers: int) -> None:
        super().__init__()
        self.token = nn.Embedding(characters, WIDTH)
        self.place = nn.Embedding(CONTEXT, WIDTH)
        block = nn.TransformerEncoderLayer(
            WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True, activation="gelu"
        )
        self.blocks = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, characters)
        self.mask: Tensor
        mask = nn.Transformer.generate_square_subsequent_mask(CONTEXT)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, text: Tensor) -> Tensor:
        """Logits of the character that comes next, at every place."""
        x = self.token(text) + self.place.weight[: text.shape[1]]
        logits: Tensor = self.head(self.norm(self.blocks(x, mask=self.mask, is_causal=True)))
        return logits


def excerpts(text: Tensor) -> tuple[Tensor, Tensor]:
    """A batch of excerpts, and the character that comes after each of theirs."""
    starts = torch.randint(len(text) - CONTEXT - 1, (BATCH, 1))
    rows = text[starts + torch.arange(CONTEXT + 1)]
    return rows[:, :-1], rows[:, 1:]


def main(words: Sequence[str] | None = None) -> tuple[float, float]:
    parser = argparse.ArgumentParser(description="A character GPT, nothing set.")
    parser.add_argument("--quick", action="store_true", help="a made-up text, two layers")
    parser.add_argument("--steps", type=int, default=None)
    arguments = parser.parse_args(words)
    words_of = MADE_UP * 40 if arguments.quick else load_text("tinyshakespeare")
    steps = arguments.steps or (120 if arguments.quick else 1000)
    alphabet = {character: i for i, character in enumerate(sorted(set(words_of)))}
    text = torch.tensor([alphabet[character] for character in words_of])
    train, valid = text[: int(0.9 * len(text))], text[int(0.9 * len(text)) :]
    torch.manual_seed(0)
    model = GPT(len(alphabet), layers=2 if arguments.quick else 4)
    opt = HeavyStep(model.parameters())
    first = 0.0
    for k in range(steps):
        x, y = excerpts(train)
        opt.zero_grad()
        loss = cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        opt.step(loss=loss)
        first = first or loss.item()
        if k % 100 == 0 and opt.info:
            print(f"step {k}: loss {loss.item():.3f}, step size {float(opt.info.step):.2e}")
    with torch.no_grad():
        x, y = excerpts(valid)
        final = cross_entropy(model(x).flatten(0, 1), y.flatten()).item()
    print(f"validation loss {final:.3f}; the first training loss was {first:.3f}")
    return first, final


if __name__ == "__main__":
    main()
