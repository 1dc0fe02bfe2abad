"""A training run as data. Nothing here computes."""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

PROTOCOL = 1
"""The version of the trainer. Raise it when the same specification would give other numbers."""
_ALWAYS = {"weight_decay": 0.0}
_ADAPTIVE = {"lr": 1.0, **_ALWAYS}
_SEARCH = {"max_trials": 100, "loss_eps": None, **_ADAPTIVE}
UNSAID: dict[str, dict[str, Any]] = {
    "SHBPolyak": {"scaling": "practical", "lower_bound": 0.0, **_ADAPTIVE},
    "SPS": {"lower_bound": 0.0, **_ADAPTIVE},
    "SHBArmijo": {"scaling": "practical", **_SEARCH},
    "SLS": _SEARCH,
    "SHB": _ALWAYS,
}
"""Options that protocol 1 leaves out of its specifications, by optimizer. They were the defaults
when it was made, and stay what they are when defaults change."""


@dataclass(frozen=True)
class MethodSpec:
    """A method of :mod:`heavystep.methods` with its options."""

    name: str
    """What the paper calls it."""
    optimizer: str
    """Its name in the registry."""
    options: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Scale:
    """Which network is trained, and on how many images."""

    network: str = "resnet18"
    batch_size: int = 256
    train_images: int = 50_000
    """How many training images are used, the first ones of the data set."""
    test_images: int = 10_000

    @property
    def steps_per_epoch(self) -> int:
        """Minibatches in an epoch; an incomplete one is dropped."""
        return self.train_images // self.batch_size


@dataclass(frozen=True)
class TrainingSpec:
    """Everything that decides the numbers of one run, except for its length.

    No method knows how many epochs there will be, so a run of 200 epochs begins with one of 30.
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
    """The runs of one curve: a method on a data set from several seeds, to the same epoch."""

    data_set: str
    method: MethodSpec
    scale: Scale
    seeds: int | tuple[int, ...]
    """How many, from 0; or which."""
    epochs: int

    def each(self) -> tuple[TrainingSpec, ...]:
        """The runs, one for each seed."""
        seeds = range(self.seeds) if isinstance(self.seeds, int) else self.seeds
        return tuple(TrainingSpec(self.data_set, self.method, self.scale, seed) for seed in seeds)

    def key(self) -> str:
        """The name under which the results are passed on."""
        text = json.dumps([self.epochs, *(run.key() for run in self.each())])
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    def size(self) -> str:
        """Say how many runs there are, and how long they are."""
        return f"{counted(len(self.each()), 'run')} of {counted(self.epochs, 'epoch')}"


def counted(number: int, thing: str) -> str:
    """A number with what it counts.

    >>> counted(1, "run"), counted(1200, "epoch")
    ('1 run', '1,200 epochs')
    """
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def parsed(text: str) -> TrainingSpec:
    """The run whose :meth:`TrainingSpec.text` this is.

    Args:
        text: what a file holds.

    Raises:
        ValueError: the text is no specification, or one of another protocol.
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
