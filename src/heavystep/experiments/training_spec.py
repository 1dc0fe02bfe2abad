"""A training run as data; nothing here computes."""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

PROTOCOL = 1
"""Of the trainer: to be raised when it would give other numbers.

Runs of the other figures are named by a hash of the sources, so that any change makes them again.
A run here takes minutes on a GPU and has to outlive changes that leave its numbers alone.
"""


@dataclass(frozen=True)
class MethodSpec:
    """An optimizer of :mod:`heavystep` with its options."""

    name: str
    """In the paper."""
    optimizer: str
    options: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Scale:
    """What is trained, on how many of the images."""

    network: str = "resnet18"
    batch_size: int = 256
    train_images: int = 50_000
    """The first so many."""
    test_images: int = 10_000

    @property
    def steps_per_epoch(self) -> int:
        """Minibatches in an epoch; an incomplete one is dropped."""
        return self.train_images // self.batch_size


@dataclass(frozen=True)
class TrainingSpec:
    """Everything that decides the numbers of one run, except for how long it goes on.

    No method knows how many epochs there will be, so that a run of 200 begins with the one of 30.
    """

    data_set: str
    method: MethodSpec
    scale: Scale
    seed: int

    def text(self) -> str:
        """The full specification as JSON."""
        return json.dumps({"protocol": PROTOCOL, "run": asdict(self)}, sort_keys=True)

    def key(self) -> str:
        """The name under which the run is stored."""
        return hashlib.sha256(self.text().encode()).hexdigest()[:24]

    def describe(self) -> str:
        """A short name for progress and messages."""
        return f"{self.data_set} {self.method.name} seed {self.seed}"


@dataclass(frozen=True)
class TrainingRuns:
    """One method on one data set from several seeds, to the same epoch: a curve."""

    data_set: str
    method: MethodSpec
    scale: Scale
    seeds: int | tuple[int, ...]
    """How many, from 0; or which."""
    epochs: int

    def each(self) -> tuple[TrainingSpec, ...]:
        """The runs."""
        seeds = range(self.seeds) if isinstance(self.seeds, int) else self.seeds
        return tuple(TrainingSpec(self.data_set, self.method, self.scale, seed) for seed in seeds)

    def key(self) -> str:
        """The name under which results are handed on."""
        text = json.dumps([self.epochs, *(run.key() for run in self.each())])
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    def size(self) -> str:
        """How many runs of which length."""
        return f"{counted(len(self.each()), 'run')} of {counted(self.epochs, 'epoch')}"


def counted(number: int, thing: str) -> str:
    """A number of things.

    >>> counted(1, "run"), counted(1200, "epoch")
    ('1 run', '1,200 epochs')
    """
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def parsed(text: str) -> TrainingSpec:
    """The run whose :meth:`TrainingSpec.text` this is.

    Args:
        text: as it was stored.

    Raises:
        ValueError: it is none, or one of another protocol.
    """
    try:
        content: dict[str, Any] = json.loads(text)
        run = content["run"]
        method = MethodSpec(
            run["method"]["name"],
            run["method"]["optimizer"],
            tuple((str(name), value) for name, value in run["method"]["options"]),
        )
        spec = TrainingSpec(run["data_set"], method, Scale(**run["scale"]), run["seed"])
    except (KeyError, TypeError, ValueError):
        raise ValueError("not the specification of a training run") from None
    if spec.text() != text:
        raise ValueError(f"a training run of another protocol than {PROTOCOL}")
    return spec
