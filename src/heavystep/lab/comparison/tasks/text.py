"""Character models: plays of Shakespeare, and program text of Python's own library."""

import copy
import math
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, gelu, linear, scaled_dot_product_attention

from heavystep.lab import data
from heavystep.lab.comparison.tasks.contract import (
    LOWER,
    Build,
    Metric,
    Supervised,
    Task,
)
from heavystep.lab.data import Examples, Split
from heavystep.lab.training.images import autocast_logits
from heavystep.lab.training.trainer import EVALUATION_SEED, Measured, Trainer, Work

TEXT, TRAIN = "tinyshakespeare", 0.9
"""The part of the text that is learnt from; the rest is for validation."""
DEVIATION = 0.02  # of a transformer's weights at the start
# As words in one text, which is a quarter as long as a list.
MODULES = """argparse ast asyncio/base_events asyncio/events bdb calendar cmd codecs
collections/__init__ configparser contextlib csv copy dataclasses datetime decimal difflib dis
doctest email/message enum fileinput fractions ftplib functools gettext glob gzip heapq html/parser
http/client http/server imaplib inspect json/decoder json/encoder locale logging/__init__
logging/handlers mailbox mimetypes nntplib ntpath numbers operator optparse os pathlib pdb pickle
pickletools platform plistlib poplib posixpath pprint profile pstats pydoc queue random re/_parser
sched selectors shelve shlex shutil smtplib socket socketserver sqlite3/dbapi2 ssl statistics string
subprocess symtable tarfile telnetlib tempfile textwrap threading timeit tokenize trace traceback
turtle typing unittest/case unittest/mock urllib/parse urllib/request uuid warnings wave weakref
xml/dom/minidom xmlrpc/client zipfile""".split()  # noqa: SIM905
"""Modules of Python's library; every eighth of those that exist is for validation."""
HELD_OUT = 8
ALPHABET = "\t\n\x0c" + "".join(map(chr, range(32, 127)))
"""Characters of program text, and of plays where a model reads both."""
PRETRAINED, RANK = 400, 4  # steps before adapters are trained, and the rank of the adapters


@dataclass(frozen=True)
class Shape:
    """The size of a model and of its batches; evaluations are batches."""

    layers: int
    heads: int
    width: int
    context: int
    batch_size: int
    dropout: float = 0.0
    evaluations: int = 40


CHARLM = Shape(layers=4, heads=4, width=128, context=64, batch_size=12)
GPT = Shape(layers=6, heads=6, width=384, context=256, batch_size=64, dropout=0.2, evaluations=50)
SMALL = Shape(layers=2, heads=4, width=64, context=64, batch_size=12)
RECURRENT = Shape(layers=1, heads=1, width=96, context=32, batch_size=16)


class Texts(NamedTuple):
    """Numbers of characters to learn from and for validation, and how many kinds there are."""

    train: Tensor
    validation: Tensor
    kinds: int


def _numbers(text: str, alphabet: str) -> Tensor:
    number = {character: place for place, character in enumerate(alphabet)}
    return torch.tensor([number[character] for character in text if character in number])


@cache
def plays(*, ascii_alphabet: bool = False) -> Texts:
    """Tiny Shakespeare, with the characters that it has or in :data:`ALPHABET`."""
    text = data.load_text(TEXT)
    alphabet = ALPHABET if ascii_alphabet else "".join(sorted(set(text)))
    numbers = _numbers(text, alphabet)
    first = int(TRAIN * len(numbers))
    return Texts(numbers[:first], numbers[first:], len(alphabet))


@cache
def programs() -> Texts:
    """The text of fixed modules of the Python that runs; it differs between versions of Python."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    paths = [path for name in MODULES if (path := folder / f"{name}.py").is_file()]
    texts = [path.read_text(encoding="utf-8") for path in paths]
    learnt = "".join(text for place, text in enumerate(texts) if place % HELD_OUT)
    return Texts(
        _numbers(learnt, ALPHABET), _numbers("".join(texts[::HELD_OUT]), ALPHABET), len(ALPHABET)
    )


class Block(nn.Module):
    """Attention, by default to what came before, then a perceptron, each added to its input."""

    def __init__(self, shape: Shape, *, causal: bool = True, bias: bool = False) -> None:
        super().__init__()
        width = shape.width
        self._heads, self._dropout, self._causal = shape.heads, shape.dropout, causal
        self.before_attention = nn.LayerNorm(width, bias=bias)
        self.before_perceptron = nn.LayerNorm(width, bias=bias)
        self.attention: nn.Module = nn.Linear(width, 3 * width, bias=bias)
        self.attended: nn.Module = nn.Linear(width, width, bias=bias)
        self.up: nn.Module = nn.Linear(width, 4 * width, bias=bias)
        self.down: nn.Module = nn.Linear(4 * width, width, bias=bias)
        self.drop = nn.Dropout(shape.dropout)

    def forward(self, x: Tensor) -> Tensor:
        batch, time, width = x.shape
        parts = self.attention(self.before_attention(x)).chunk(3, dim=2)
        query, key, value = (
            part.view(batch, time, self._heads, width // self._heads).transpose(1, 2)
            for part in parts
        )
        mixed = scaled_dot_product_attention(
            query, key, value, dropout_p=self._dropout if self.training else 0.0,
            is_causal=self._causal,
        )  # fmt: skip
        x = x + self.drop(self.attended(mixed.transpose(1, 2).reshape(batch, time, width)))
        out: Tensor = x + self.drop(self.down(gelu(self.up(self.before_perceptron(x)))))
        return out


class Transformer(nn.Module):
    """Logits of the next character at each place; input and output share their embedding.

    Reference: A. Radford et al. (2019), Language Models are Unsupervised Multitask Learners; sizes
    are those of nanoGPT's character models.
    """

    positions: Tensor

    def __init__(self, characters: int, shape: Shape) -> None:
        super().__init__()
        self.character = nn.Embedding(characters, shape.width)
        self.position = nn.Embedding(shape.context, shape.width)
        self.drop = nn.Dropout(shape.dropout)
        self.blocks = nn.Sequential(*(Block(shape) for _ in range(shape.layers)))
        self.norm = nn.LayerNorm(shape.width, bias=False)
        self.register_buffer("positions", torch.arange(shape.context), persistent=False)
        residual = DEVIATION / math.sqrt(2 * shape.layers)
        for name, param in self.named_parameters():
            if param.dim() == 2:
                last = name.endswith(("attended.weight", "down.weight"))
                nn.init.normal_(param, 0.0, residual if last else DEVIATION)

    def forward(self, characters: Tensor) -> Tensor:
        places = self.position(self.positions[: characters.shape[1]])
        x = self.blocks(self.drop(self.character(characters) + places))
        return linear(self.norm(x), self.character.weight)


class Recurrent(nn.Module):
    """One layer of an LSTM, with a state that begins at 0 in every window."""

    def __init__(self, characters: int, shape: Shape) -> None:
        super().__init__()
        self.character = nn.Embedding(characters, shape.width // 2)
        self.memory = nn.LSTM(shape.width // 2, shape.width, batch_first=True)
        self.head = nn.Linear(shape.width, characters)

    def forward(self, characters: Tensor) -> Tensor:
        logits: Tensor = self.head(self.memory(self.character(characters))[0])
        return logits


class Adapted(nn.Module):
    """A frozen layer and a trained product of two thin matrices beside it: x (W + (BA)').

    Reference: E. Hu et al. (2022), LoRA: Low-Rank Adaptation of Large Language Models, eq. 3.
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer
        self.a = nn.Parameter(torch.randn(RANK, layer.in_features) / math.sqrt(layer.in_features))
        self.b = nn.Parameter(torch.zeros(layer.out_features, RANK))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x) + linear(linear(x, self.a), self.b)
        return out


class LanguageModel(Supervised):
    """Windows of a text at random places; on a GPU in bfloat16 where autocast thinks it safe."""

    def __init__(
        self, seed: int, device: torch.device, network: nn.Module, texts: Texts, shape: Shape
    ) -> None:
        # Views of a text that is on the device already: a copy of windows would be large.
        windows = (windows_of(text.to(device), shape.context) for text in texts[:2])
        size, self._batches = shape.batch_size, shape.evaluations
        super().__init__(
            seed, device, network, Split(*windows), cross_entropy, batch_size=size, drawn=True
        )

    def loss(self) -> Tensor:
        return self._entropy(self.forward, self.batch)

    def _entropy(self, network: Callable[[Tensor], Tensor], batch: Examples) -> Tensor:
        logits = autocast_logits(network, batch.inputs)
        return cross_entropy(logits.flatten(0, 1), batch.targets.flatten())

    def evaluate(self) -> Measured:
        """Training and validation loss of windows that are the same each time."""
        found = []
        for part in (self.train, self.test):
            stream, losses = torch.Generator().manual_seed(EVALUATION_SEED), []
            for _ in range(self._batches):
                which = torch.randint(len(part.inputs), (len(self.batch.inputs),), generator=stream)
                batch = Examples(*(source[which.to(self.device)] for source in part))
                losses.append(self._entropy(self.network, batch))
            found.append(float(torch.stack(losses).mean()))
        return Measured(*found)


def windows_of(text: Tensor, context: int) -> Examples:
    """Every window of a text but the last, and the characters that come next, as views."""
    return Examples(text[:-2].unfold(0, context, 1), text[1:-1].unfold(0, context, 1))


def _model(kind: Callable[..., nn.Module], shape: Shape, texts: Callable[[], Texts]) -> Build:
    """A function that builds the work of a model that learns texts."""
    return lambda seed, device: LanguageModel(
        seed, device, kind(texts().kinds, shape), texts(), shape
    )


@cache
def pretrained() -> nn.Module:
    """A small transformer that knows Shakespeare, the same in every process."""
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        texts = partial(plays, ascii_alphabet=True)
        work = _model(Transformer, SMALL, texts)(0, torch.device("cpu"))
        trainer = Trainer(work, torch.optim.AdamW(work.parameters(), lr=3e-3, weight_decay=0.0),
                          captured=False)  # fmt: skip
        for _ in range(PRETRAINED):
            trainer.take_step()
    return work.network.requires_grad_(False)


def adapters(seed: int, device: torch.device) -> Work:
    """Thin matrices that teach it program text."""
    network = copy.deepcopy(pretrained())
    for block in network.blocks:  # type: ignore[union-attr]
        for name in ("attention", "attended", "up", "down"):
            setattr(block, name, Adapted(getattr(block, name)))
    return LanguageModel(seed, device, network, programs(), SMALL)


without_text = partial(data.missing_text, [TEXT])
VALIDATION = Metric("validation loss", LOWER, "nats", 0.05)
FINE = Metric("validation loss", LOWER, "%", 1.0)
PYTHON = f"1, Python {sys.version_info.major}.{sys.version_info.minor}"
"""Program text belongs to a version of Python, and so do runs on it."""
TEXTUAL = (
    Task("charlm", "character model, 4 layers of 128", VALIDATION, 1000,
         _model(Transformer, CHARLM, plays), without_text, seeds=1),
    Task("gpt", "character GPT, 6 layers of 384", VALIDATION, 2500,
         _model(Transformer, GPT, plays), without_text, gpu=True, seeds=1),
    Task("source", "GPT on program text, 2 layers of 64", FINE, 1000,
         _model(Transformer, SMALL, programs), version=PYTHON, seeds=1),
    Task("lstm", "LSTM of 96 on Shakespeare", FINE, 800, _model(Recurrent, RECURRENT, plays),
         without_text),
    Task("lora", "adapters of rank 4, from Shakespeare to program text", FINE, 500, adapters,
         without_text, version=PYTHON),
)  # fmt: skip
