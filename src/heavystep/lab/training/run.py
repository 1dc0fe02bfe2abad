"""Trains the missing runs of Figure 3, and keeps them epoch by epoch with checkpoints."""

import gc
import hashlib
import io
import json
import math
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer

from heavystep import __version__, validation
from heavystep.lab.data import CIFAR, Images, TrainTest, load_cifar
from heavystep.lab.files import MARK, write_atomically
from heavystep.lab.store import Columns
from heavystep.lab.sweeps import Advance, Engine, Run, outcomes
from heavystep.lab.training.images import Colours, colours
from heavystep.lab.training.networks import NETWORKS
from heavystep.lab.training.runs import (
    UNSAID,
    MethodSpec,
    TrainingRuns,
    TrainingSpec,
    TrainingStore,
)
from heavystep.lab.training.trainer import DivergedError, EpochRow, Trainer
from heavystep.methods import method_of
from heavystep.optimizers import create

CHECKPOINT_SECONDS = 30.0
"""A checkpoint is written at the end of an epoch if the last one is older than this."""
CHECKPOINT = 2  # the version of the checkpoints
DEVICES = ("cpu", "cuda")
BFLOAT16_LOSSES = {"loss_eps": 2.0**-12, "example_loss": 1.0}
"""What a line search has to know of losses from bfloat16 activations. The relative rounding error
of a minibatch of 256 images, a ResNet-18 and a cross-entropy l was measured, by moving parameters
by 1e-6 of themselves, as 4e-4 / sqrt(l) from l = 2 (0.03%) to l = 2e-4 (2.3%). With 2^-12 alone
searches end half way through 200 epochs, in steps of 1e-7; with 2^-7 they compare nothing at the
start. A search tolerates four times what is given here."""


@dataclass(frozen=True)
class How:
    """How runs are trained, as far as it does not decide their numbers.

    Args:
        device: ``"cpu"`` or ``"cuda"``; None: the GPU if there is one.
        minutes: training stops after this many, with a checkpoint.
        force: whether runs that are there are trained again.
    """

    device: str | None = None
    minutes: float | None = None
    force: bool = False


@cache
def images_of(data_set: str) -> TrainTest:
    """The images of a data set, which are read and checked once."""
    try:
        return load_cifar(data_set)
    except FileNotFoundError as error:
        raise ValueError(error.strerror) from None


@cache
def colours_of(data_set: str, images: int) -> Colours:
    """The colours of the first training images, which are the same for every run."""
    return colours(images_of(data_set).train.images[:images])


def trainer_of(run: TrainingSpec, device: torch.device, compiled: bool = False) -> Trainer:
    """The trainer of a run, before its first step."""
    scale, (train, test) = run.scale, images_of(run.data_set)
    torch.manual_seed(run.seed)
    return Trainer(
        NETWORKS[scale.network](CIFAR[run.data_set].classes),
        lambda network, steps: optimizer_of(run.method, network, steps, device),
        Images(*(part[: scale.train_images] for part in train)),
        Images(*(part[: scale.test_images] for part in test)),
        batch_size=scale.batch_size,
        seed=run.seed,
        device=device,
        scale=colours_of(run.data_set, scale.train_images),
        compiled=compiled,
    )


def optimizer_of(
    method: MethodSpec, network: nn.Module, steps_per_epoch: int, device: torch.device
) -> Optimizer:
    """The optimizer of a method; methods with a smooth reset have n_b steps in an epoch."""
    registered = method_of(method.optimizer)
    said = {**UNSAID, "steps_per_epoch": steps_per_epoch, **dict(method.options)}
    options = {each.name: said[each.name] for each in registered.options if each.name in said}
    if registered.rule.searches:
        options["buffers"] = network.buffers
        if device.type == "cuda":  # there losses come from bfloat16 activations
            options |= BFLOAT16_LOSSES
    return create(method.optimizer, network.parameters(), weight_decay=0.0, **options)


@cache
def compiles(device: torch.device) -> bool:
    """Whether torch can compile: it wants Triton, a C compiler and a GPU that is not too old."""
    with warnings.catch_warnings():
        # Once a process: that products in float32 could be faster. Ours are in bfloat16.
        warnings.simplefilter("ignore")
        try:
            torch.compile(lambda x: x + 1.0)(torch.zeros((), device=device))
        except Exception:  # of many kinds, and none keeps a run from being trained
            return False
    return True


def the_device(name: str | None) -> torch.device:
    """A device by its name; without a name, the GPU if there is one.

    Raises:
        ValueError: there is no such device.
    """
    if name is not None:
        validation.choice("device", name, DEVICES)
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device is 'cuda', but torch sees no GPU here")
    return torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))


@contextmanager
def prepared(small: bool) -> Iterator[None]:
    """Let cuDNN try its algorithms, because shapes never change; one thread for small networks.

    The threads of a small network would wait for each other more than they help. With one thread
    its numbers do not depend on the number of cores.
    """
    threads, benchmark = torch.get_num_threads(), torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    if small:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.backends.cudnn.benchmark = benchmark


def versions() -> str:
    """The versions of the software that trains."""
    cudnn: Any = torch.backends.cudnn
    gpu = f", CUDA {torch.version.cuda}, cuDNN {cudnn.version()}" if torch.version.cuda else ""
    return f"heavystep {__version__}, torch {torch.__version__}{gpu}"


def free() -> None:
    """Give memory back to which nothing refers any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def save_checkpoint(path: Path, run: str, state: dict[str, Any]) -> None:
    """Write a checkpoint in place of the last one.

    It begins with the hash of the rest, because torch does not notice a bit that has changed.
    ``run`` is everything that decides how the run goes on, as JSON.
    """
    body = io.BytesIO()
    torch.save({"format": CHECKPOINT, "run": run, "state": state}, body)
    whole = hashlib.sha256(body.getvalue()).digest() + body.getvalue()
    write_atomically(path, lambda part: part.write_bytes(whole))


def load_checkpoint(path: Path, run: str) -> dict[str, Any] | None:
    """The state in a checkpoint, on the CPU; None if there is no file.

    Raises:
        ValueError: the file is damaged, or is the checkpoint of another run.
    """
    if not path.exists():
        return None
    whole = path.read_bytes()
    digest, body = whole[:32], whole[32:]
    if hashlib.sha256(body).digest() != digest:
        raise ValueError(f"{path} is no whole checkpoint: remove it to begin again")
    content = torch.load(io.BytesIO(body), map_location="cpu", weights_only=True)
    if content["format"] != CHECKPOINT:
        raise ValueError(f"{path} is a checkpoint of another version: remove it to begin again")
    if content["run"] != run:
        both = map(json.loads, (content["run"], run))
        there, here = ({**each, **each.pop("run")} for each in both)
        differing = [name for name in sorted(there.keys() & here) if there[name] != here[name]]
        said = "; ".join(f"{n} is {there[n]!r} there, {here[n]!r} here" for n in differing)
        raise ValueError(f"{path} is a checkpoint of another configuration: {said}")
    state: dict[str, Any] = content["state"]
    return state


class Stopping:
    """Says whether to stop, and remembers the signal that asked for it."""

    def __init__(self, minutes: float | None = None) -> None:
        self._deadline = math.inf if minutes is None else time.monotonic() + 60.0 * minutes
        self.signal: signal.Signals | None = None

    def __call__(self) -> bool:
        return self.signal is not None or time.monotonic() > self._deadline

    def note(self, number: int, frame: object) -> None:
        """Handle a signal; the second time somebody does not want to wait."""
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number)


@contextmanager
def stopping(minutes: float | None = None) -> Iterator[Stopping]:
    """Within the block, SIGTERM, SIGINT and the end of the time only ask the process to stop."""
    wish, before = Stopping(minutes), {}
    if threading.current_thread() is threading.main_thread():  # Python lets no other thread do this
        before = {n: signal.signal(n, wish.note) for n in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield wish
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def train_missing(
    curves: Iterable[TrainingRuns],
    store: TrainingStore,
    progress: Any,
    how: How,
    engine: Engine | None = None,
) -> bool:
    """Train every run that does not reach its last epoch, here or on a cluster.

    All methods are trained with one seed before the next, so that they can be compared early. Here,
    at SIGTERM, SIGINT or the end of the time a run leaves a checkpoint, and the next call goes on
    there. When a run fails, the others are still trained.

    Args:
        curves: what is wanted.
        store: where runs are kept.
        progress: what :class:`heavystep.lab.sweeps.Progress` is, told of epochs besides.
        how: how they are trained.
        engine: the cluster; None: this process trains.

    Returns:
        False if time ran out before all runs were complete.

    Raises:
        ValueError: data are missing or damaged, or a run failed or cannot go on.
        KeyboardInterrupt: a signal came; its number is the argument.
    """
    wanted = [(run, curve.epochs) for curve in curves for run in curve.each()]
    wanted.sort(key=lambda pair: (pair[0].data_set, pair[0].seed))
    lacking, left = [], 0
    for run, epochs in wanted:
        there = store.epochs(run)
        if how.force or there < epochs:
            lacking.append((run, epochs))
            # Without a checkpoint to go on from, all epochs have to be trained again.
            left += epochs - (there if not how.force and store.checkpoint(run).exists() else 0)
    progress.start(len(wanted), len(wanted) - len(lacking), left)
    if not lacking:  # a cluster takes long to start
        return True
    failed, complete, what = list[str](), True, "diverged" if engine is None else "failed"
    if engine is None:
        device = the_device(how.device)
        with stopping(how.minutes) as stop:
            for run, epochs in lacking:
                progress.begin(run.describe())
                try:
                    complete = OneRun(run, epochs, store, progress, how, device).train(stop)
                except DivergedError as error:
                    progress.note(str(error))
                    failed.append(run.describe())
                    continue
                if not complete and stop.signal is not None:
                    raise KeyboardInterrupt(int(stop.signal))
                if not complete:
                    return False
                progress.finish()
    else:
        # Absolute paths, because workers run in another folder.
        folder, device_there = store.folder.absolute(), how.device or the_device(None).type
        jobs = [Elsewhere(*each, folder, replace(how, device=device_there)) for each in lacking]
        with closing(outcomes(jobs, progress, engine)) as found:
            for place, _, failure in found:
                if failure:
                    progress.note(f"{jobs[place].label} failed\n{failure}")
                    failed.append(jobs[place].label)
                else:
                    progress.finish()
    if failed:
        raise ValueError(f"{len(failed)} of {len(wanted)} runs {what}: {', '.join(failed)}")
    return True


@dataclass
class OneRun:
    """A run in progress, with its checkpoints and its stored epochs."""

    run: TrainingSpec
    epochs: int
    store: TrainingStore
    progress: Any
    how: How
    device: torch.device

    def train(self, stop: Callable[[], bool]) -> bool:
        """Go on to the last epoch, and leave a checkpoint there or where it is stopped.

        Returns:
            False if it was stopped before the last epoch.

        Raises:
            DivergedError: the loss was not finite; the message names the last good checkpoint.
            ValueError: the batches do not fit into memory, or the checkpoint is of another run.
        """
        small, name = self.run.scale.network == "small", self.run.describe()
        # A line search compares losses of a forward with and without gradients. Compiled, these are
        # two graphs whose roundings differ, by less than what BFLOAT16_LOSSES lets pass.
        with prepared(small):
            try:
                compiled = self.device.type == "cuda" and not small and compiles(self.device)
                return self._trained(trainer_of(self.run, self.device, compiled), stop)
            except DivergedError as error:
                kept = self.store.checkpoint(self.run)
                left = f"the last good checkpoint is {kept}" if kept.exists() else "no checkpoint"
                raise DivergedError(f"{name}: {error}; {left}") from None
            except torch.OutOfMemoryError:
                size = self.run.scale.batch_size
                text = f"{name}: out of GPU memory with batches of {size}; free some, or take"
                raise ValueError(f"{text} --device cpu") from None

    def _trained(self, trainer: Trainer, stop: Callable[[], bool]) -> bool:
        identity = {**json.loads(self.run.text()), "precision": trainer.precision}
        path, self._identity = self.store.checkpoint(self.run), json.dumps(identity)
        if not self.how.force and (state := load_checkpoint(path, self._identity)) is not None:
            trainer.load_state_dict(state["trainer"])
            self._save_epochs(trainer)  # which a kill may have kept from being written
        kept = time.perf_counter()
        while len(trainer.history) < self.epochs:
            row = trainer.epoch(stop, self.progress.advance)
            complete = row is not None and row.epoch == self.epochs
            if row is None or complete or time.perf_counter() - kept >= CHECKPOINT_SECONDS:
                kept = time.perf_counter()
                self._keep(trainer, complete)
            if row is None:
                return False
            self.progress.epoch(row, trainer.images_per_epoch)
        return True

    def _keep(self, trainer: Trainer, complete: bool) -> None:
        """Write the checkpoint and the epochs; of a forced run nothing before its end.

        After a step without a finite loss no checkpoint is written, because the run has to go on
        from before such steps, and epochs are written only if the run is complete.
        """
        bad = trainer.meter.in_a_streak()
        if (bad or self.how.force) and not complete:
            return
        if not bad:
            path = self.store.checkpoint(self.run)
            save_checkpoint(path, self._identity, {"trainer": trainer.state_dict()})
        self._save_epochs(trainer)

    def _save_epochs(self, trainer: Trainer) -> None:
        """Write the epochs, unless more are stored already; those of a forced run in any case."""
        if self.how.force or len(trainer.history) > self.store.epochs(self.run):
            self.store.save(self.run, trainer.history)


@dataclass(frozen=True)
class Elsewhere(Run):
    """A run that another machine trains, which has to see the folder of the runs.

    That machine writes epochs and checkpoints, so that a run that loses it goes on on another one.
    """

    run: TrainingSpec
    epochs: int
    folder: Path
    how: How

    @property
    def label(self) -> str:
        return self.run.describe()

    def content(self) -> dict[str, Any]:
        return {"epochs": self.epochs, **json.loads(self.run.text())}

    def compute(self, advance: Advance) -> Columns:
        out = self.folder.parent.parent
        if not (out / MARK).exists():
            raise ValueError(f"{out} is not on this machine: --out must be a path all nodes see")

        class Told:
            def advance(self, share: float) -> None:
                advance(share)

            def epoch(self, row: EpochRow, images: int) -> None:
                """Do nothing: epochs are read from their file."""

        store, device = TrainingStore(self.folder), the_device(self.how.device)
        OneRun(self.run, self.epochs, store, Told(), self.how, device).train(Stopping())
        return {"epoch": np.arange(1, self.epochs + 1)}
