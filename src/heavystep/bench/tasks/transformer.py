"""A small transformer that predicts the next character.

Reference: A. Radford et al. (2019), Language Models are Unsupervised Multitask Learners; sizes are
those of nanoGPT's character models.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

DEVIATION = 0.02
"""Of the weights at the start."""


@dataclass(frozen=True)
class Shape:
    """The size of a transformer and of its batches."""

    layers: int
    heads: int
    width: int
    context: int
    batch_size: int
    dropout: float


class Block(nn.Module):
    """Attention to what came before, then a perceptron, each added to its input."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = shape.width
        self._heads, self._dropout = shape.heads, shape.dropout
        self.before_attention = nn.LayerNorm(width, bias=False)
        self.before_perceptron = nn.LayerNorm(width, bias=False)
        self.attention = nn.Linear(width, 3 * width, bias=False)
        self.attended = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)
        self.drop = nn.Dropout(shape.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, time, width) to the same."""
        batch, time, width = x.shape
        parts = self.attention(self.before_attention(x)).chunk(3, dim=2)
        query, key, value = (
            part.view(batch, time, self._heads, width // self._heads).transpose(1, 2)
            for part in parts
        )
        dropout = self._dropout if self.training else 0.0
        mixed = scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=True)
        x = x + self.drop(self.attended(mixed.transpose(1, 2).reshape(batch, time, width)))
        out: Tensor = x + self.drop(self.down(gelu(self.up(self.before_perceptron(x)))))
        return out


class Transformer(nn.Module):
    """Logits of the next character at each place; input and output share their embedding."""

    positions: Tensor

    def __init__(self, characters: int, shape: Shape) -> None:
        super().__init__()
        self.character = nn.Embedding(characters, shape.width)
        self.position = nn.Embedding(shape.context, shape.width)
        self.drop = nn.Dropout(shape.dropout)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width, bias=False)
        self.register_buffer("positions", torch.arange(shape.context), persistent=False)
        residual = DEVIATION / math.sqrt(2 * shape.layers)
        for name, param in self.named_parameters():
            if param.dim() == 2:
                last = name.endswith(("attended.weight", "down.weight"))
                nn.init.normal_(param, 0.0, residual if last else DEVIATION)

    def forward(self, characters: Tensor) -> Tensor:
        """(batch, time) numbers of characters to (batch, time, characters) logits."""
        places = self.position(self.positions[: characters.shape[1]])
        x = self.drop(self.character(characters) + places)
        for block in self.blocks:
            x = block(x)
        return nn.functional.linear(self.norm(x), self.character.weight)
