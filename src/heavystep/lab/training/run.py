"""Trains the missing runs of Figure 3, and keeps them epoch by epoch with checkpoints."""

import gc
import hashlib
import io
import json
import platform
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer

from heavystep import __version__, validation
from heavystep.lab import sweeps
from heavystep.lab.data import CIFAR, Images, TrainTest, load_cifar
from heavystep.lab.files import MARK, write_atomically
from heavystep.lab.store import Columns
from heavystep.lab.sweeps import Advance, Engine, Run, outcomes
from heavystep.lab.training.images import Colours, colours
from heavystep.lab.training.networks import NETWORKS
from heavystep.lab.training.runs import (
    UNSAID,
    MethodSpec,
    Stored,
    Stretch,
    TrainingRuns,
    TrainingSpec,
    TrainingStore,
    whole,
)
from heavystep.lab.training.trainer import DivergedError, EpochRow, Trainer
from heavystep.methods import method_of
from heavystep.optimizers import create

CHECKPOINT_SECONDS = 30.0
"""A checkpoint is written at the end of an epoch if the last one is older than this."""
CHECKPOINT = 2
"""The version of the checkpoints."""
DEVICES = ("cpu", "cuda")
BFLOAT16_LOSSES = {"loss_eps": 2.0**-12, "example_loss": 1.0}
"""What a line search has to know of losses from bfloat16 activations. The relative rounding error
of a minibatch of 256 images, a ResNet-18 and a cross-entropy l was measured, by moving parameters
by 1e-6 of themselves, as 4e-4 / sqrt(l) from l = 2 (0.03%) to l = 2e-4 (2.3%). With 2^-12 alone
searches end half way through 200 epochs, in steps of 1e-7; with 2^-7 they compare nothing at the
start. A search tolerates four times what is given here."""
LOGGED = {
    "loss": "loss/train", "test_loss": "loss/test", "test_accuracy": "accuracy/test",
    "step": "step/size", "capped": "step/at_cap", "trials": "step/trials",
    "refused": "step/refused", "seconds": "time/seconds_per_epoch",
}  # fmt: skip
"""What TensorBoard shows of an epoch, and under which name."""


class RunProgress(Protocol):
    """What a run reports while it is trained: shares of an epoch, and epochs of so many images."""

    def advance(self, share: float) -> None: ...  # noqa: D102

    def epoch(self, row: EpochRow, images: int) -> None: ...  # noqa: D102


class TrainingProgress(RunProgress, sweeps.Progress, Protocol):
    """What training reports, run after run; work is counted in epochs."""


@dataclass(frozen=True)
class How:
    """How runs are trained, as far as it does not decide their numbers.

    Args:
        device: ``"cpu"`` or ``"cuda"``; None: the GPU if there is one.
        tensorboard: the folder of the logs for TensorBoard; None: there are no logs.
        minutes: training stops after this many, with a checkpoint; None: it goes on to the end.
        force: whether runs that are there are trained again.
        no_compile: whether the network is left as it is even where compiling it would pay.
    """

    device: str | None = None
    tensorboard: Path | None = None
    minutes: float | None = None
    force: bool = False
    no_compile: bool = False


@cache
def images_of(data_set: str) -> TrainTest:
    """The images of a data set, which are read and checked once.

    Raises:
        ValueError: a file is missing, or is not the published one.
    """
    try:
        return load_cifar(data_set)
    except FileNotFoundError as error:
        raise ValueError(error.strerror) from None


@cache
def colours_of(data_set: str, images: int) -> Colours:
    """The colours of the first training images, which are the same for every run."""
    return colours(images_of(data_set).train.images[:images])


def trainer_of(
    run: TrainingSpec,
    device: torch.device,
    compiled: bool = False,
    *,
    batch_size: int | None = None,
) -> Trainer:
    """The trainer of a run, before its first step.

    Args:
        run: which run.
        device: where it is trained.
        compiled: whether the network is compiled.
        batch_size: another one than that of the run, to try whether it fits into memory.
    """
    scale, images = run.scale, images_of(run.data_set)
    sizes = (scale.train_images, scale.test_images)
    first = [Images(*(part[:n] for part in each)) for each, n in zip(images, sizes, strict=True)]
    torch.manual_seed(run.seed)
    return Trainer(
        NETWORKS[scale.network](CIFAR[run.data_set].classes),
        lambda network, steps: optimizer_of(run.method, network, steps, device),
        *first,
        batch_size=batch_size or scale.batch_size,
        seed=run.seed,
        device=device,
        scale=colours_of(run.data_set, scale.train_images),
        compiled=compiled,
    )


def optimizer_of(
    method: MethodSpec, network: nn.Module, steps_per_epoch: int, device: torch.device
) -> Optimizer:
    """The optimizer of a method.

    Args:
        method: with its options.
        network: whose parameters are trained.
        steps_per_epoch: n_b of the smooth reset, for methods that have one.
        device: where it is trained.
    """
    registered = method_of(method.optimizer)
    options = {**UNSAID[method.optimizer], **dict(method.options)}
    if "steps_per_epoch" in {option.name for option in registered.options}:
        options["steps_per_epoch"] = steps_per_epoch
    if registered.rule.searches:
        options["buffers"] = network.buffers
        if device.type == "cuda":  # there losses come from bfloat16 activations
            options |= BFLOAT16_LOSSES
    return create(method.optimizer, network.parameters(), **options)


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


def device_name(device: torch.device) -> str:
    """The name of the processor or GPU."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return platform.processor() or platform.machine()


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


def _advice(run: TrainingSpec, device: torch.device) -> str:
    """Say which batch size would fit, after a run has run out of GPU memory."""
    size, fits = run.scale.batch_size, 0
    while size > 1 and not fits:
        size //= 2
        free()
        try:
            trainer = trainer_of(run, device, batch_size=size)
            for _ in range(5):  # warm-up, recording, replay
                trainer.take_step()
            fits = size
        except torch.OutOfMemoryError:
            continue
    remedy = f"{fits} would fit" if fits else "not even one image fits"
    return f"{run.describe()}: out of GPU memory with batches of {run.scale.batch_size}; {remedy}"


def save_checkpoint(path: Path, run: str, state: dict[str, Any]) -> None:
    """Write a checkpoint in place of the last one.

    It begins with the hash of the rest, because torch does not notice a bit that has changed.

    Args:
        path: the file.
        run: everything that decides how the run goes on, as JSON.
        state: made of tensors, numbers, texts, lists and dicts.
    """
    body = io.BytesIO()
    torch.save({"format": CHECKPOINT, "run": run, "state": state}, body)
    content = hashlib.sha256(body.getvalue()).digest() + body.getvalue()
    write_atomically(path, lambda part: part.write_bytes(content))


def load_checkpoint(path: Path, run: str) -> dict[str, Any] | None:
    """The state in a checkpoint, on the CPU; None if there is no file.

    Args:
        path: the file.
        run: what :func:`save_checkpoint` was given; the checkpoint of another run is refused.

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
        there, here = (_flat(json.loads(text)) for text in (content["run"], run))
        differences = "; ".join(
            f"{name} is {there.get(name)!r} there, {here.get(name)!r} here"
            for name in sorted(there | here)
            if there.get(name) != here.get(name)
        )
        raise ValueError(f"{path} is a checkpoint of another configuration: {differences}")
    state: dict[str, Any] = content["state"]
    return state


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """Nested JSON in one level: {"a": {"b": 1}} gives {"a.b": 1}; options are pairs."""
    if isinstance(value, list) and all(isinstance(item, list) and len(item) == 2 for item in value):
        value = dict(value)
    if not isinstance(value, dict):
        return {name: value}
    parts = (_flat(inner, f"{name}.{key}" if name else str(key)) for key, inner in value.items())
    return {key: inner for part in parts for key, inner in part.items()}


class Stopping:
    """Says whether to stop, and remembers the signal that asked for it."""

    def __init__(self, minutes: float | None = None) -> None:
        self._deadline = None if minutes is None else time.monotonic() + 60.0 * minutes
        self.signal: signal.Signals | None = None

    def __call__(self) -> bool:
        """Whether to stop now."""
        late = self._deadline is not None and time.monotonic() > self._deadline
        return late or self.signal is not None

    def note(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal; the second time somebody does not want to wait."""
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number)


@contextmanager
def stopping(minutes: float | None = None) -> Iterator[Stopping]:
    """Within the block, SIGTERM and SIGINT do not end the process but ask it to stop.

    Args:
        minutes: after this time it is asked to stop, too; None: never.
    """
    wish = Stopping(minutes)
    if threading.current_thread() is not threading.main_thread():
        yield wish  # Python lets no other thread handle signals
        return
    before = {n: signal.signal(n, wish.note) for n in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield wish
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Missing(NamedTuple):
    """A run that does not reach its last epoch."""

    run: TrainingSpec
    epochs: int
    epochs_left: int


def wanted_and_missing(
    curves: Iterable[TrainingRuns],
    store: TrainingStore,
    progress: TrainingProgress,
    *,
    force: bool,
) -> tuple[int, list[Missing]]:
    """How many runs there are, and which have to be trained, seed by seed; starts the progress."""
    wanted = [(run, curve.epochs) for curve in curves for run in curve.each()]
    wanted.sort(key=lambda pair: (pair[0].data_set, pair[0].seed))
    found = []
    for run, epochs in wanted:
        there = _epochs(run, store)
        # Without a checkpoint to go on from, all epochs have to be trained again.
        begun = there if not force and store.checkpoint(run).exists() else 0
        if force or there < epochs:
            found.append(Missing(run, epochs, epochs - begun))
    left = sum(each.epochs_left for each in found)
    progress.start(len(wanted), len(wanted) - len(found), left)
    return len(wanted), found


def _epochs(run: TrainingSpec, store: TrainingStore) -> int:
    stored = whole(run, store)
    return stored.epochs if stored else 0


def train_missing(
    curves: Iterable[TrainingRuns], store: TrainingStore, progress: TrainingProgress, how: How
) -> bool:
    """Train every run that does not reach its last epoch.

    All methods are trained with one seed before the next, so that they can be compared early. At
    SIGTERM, SIGINT or the end of the time a run leaves a checkpoint, and the next call goes on
    there. When a run diverges, the others are still trained.

    Returns:
        False if time ran out before all runs were complete.

    Raises:
        ValueError: data are missing or damaged, or a run diverged or cannot go on.
        KeyboardInterrupt: a signal came; its number is the argument.
    """
    device = the_device(how.device)
    wanted, lacking = wanted_and_missing(curves, store, progress, force=how.force)
    diverged, complete = [], True
    with stopping(how.minutes) as stop:
        for run, epochs, _ in lacking:
            progress.begin(run.describe())
            try:
                complete = OneRun(run, epochs, store, progress, how, device).train(stop)
            except DivergedError as error:
                progress.note(str(error))
                diverged.append(run.describe())
                continue
            if not complete:
                break
            progress.finish()
    if stop.signal is not None and not complete:
        raise KeyboardInterrupt(int(stop.signal))
    if diverged and complete:
        raise ValueError(f"{len(diverged)} of {wanted} runs diverged: {', '.join(diverged)}")
    return complete


class OneRun:
    """A run in progress, with its checkpoints and its stored epochs."""

    def __init__(
        self,
        run: TrainingSpec,
        epochs: int,
        store: TrainingStore,
        progress: RunProgress,
        how: How,
        device: torch.device,
    ) -> None:
        self._run, self._store, self._progress, self._how = run, store, progress, how
        self._epochs, self._device = epochs, device
        self._begin = self._kept = time.perf_counter()

    def train(self, stop: Callable[[], bool]) -> bool:
        """Go on to the last epoch, and leave a checkpoint there or where it is stopped.

        Returns:
            False if it was stopped before the last epoch.

        Raises:
            DivergedError: the loss was not finite; the message names the last good checkpoint.
            ValueError: the batches do not fit into memory, or the checkpoint is of another run.
        """
        small = self._run.scale.network == "small"
        # A line search compares losses of a forward with and without gradients. Compiled, these are
        # two graphs whose roundings differ, by less than what BFLOAT16_LOSSES lets pass.
        large_on_gpu = self._device.type == "cuda" and not small and not self._how.no_compile
        with prepared(small):
            try:
                compiled = large_on_gpu and compiles(self._device)
                return self._trained(trainer_of(self._run, self._device, compiled), stop)
            except DivergedError as error:
                kept = self._store.checkpoint(self._run)
                left = f"the last good checkpoint is {kept}" if kept.exists() else "no checkpoint"
                raise DivergedError(f"{self._run.describe()}: {error}; {left}") from None
            except torch.OutOfMemoryError:
                pass  # its traceback holds the tensors; ask for advice when they are gone
            raise ValueError(_advice(self._run, self._device))

    def _trained(self, trainer: Trainer, stop: Callable[[], bool]) -> bool:
        before, log = self._resumed(trainer), self._log()
        try:
            while len(trainer.history) < self._epochs:
                row = trainer.epoch(stop, self._progress.advance)
                if row is None:
                    self._keep(trainer, before)
                    return False
                since, complete = time.perf_counter() - self._kept, row.epoch == self._epochs
                if since >= CHECKPOINT_SECONDS or complete:
                    self._keep(trainer, before, complete)
                for name, tag in LOGGED.items() if log else ():
                    log.add_scalar(tag, getattr(row, name), row.epoch)
                self._progress.epoch(row, trainer.images_per_epoch)
        finally:
            if log:
                log.close()
        return True

    def _log(self) -> Any:
        if self._how.tensorboard is None:
            return None
        from torch.utils.tensorboard import SummaryWriter

        name = self._run.describe().replace(" ", "_")
        return SummaryWriter(str(self._how.tensorboard / name))

    def _identity(self, trainer: Trainer) -> str:
        return json.dumps({**json.loads(self._run.text()), "precision": trainer.precision})

    def _resumed(self, trainer: Trainer) -> tuple[Stretch, ...]:
        """Load the checkpoint, if there is one, and return the stretches up to there."""
        if self._how.force:
            return ()
        state = load_checkpoint(self._store.checkpoint(self._run), self._identity(trainer))
        if state is None:
            return ()
        trainer.load_state_dict(state["trainer"])
        stretches = tuple(Stretch(**each) for each in state["stretches"])
        self._save_epochs(trainer, stretches)  # which a kill may have kept from being written
        return stretches

    def _keep(self, trainer: Trainer, before: tuple[Stretch, ...], complete: bool = False) -> None:
        """Write the checkpoint and the epochs; of a forced run nothing before its end.

        After a step without a finite loss no checkpoint is written, because the run has to go on
        from before such steps, and epochs are written only if the run is complete.
        """
        bad = trainer.meter.in_a_streak()
        if (bad or self._how.force) and not complete:
            return
        self._kept = time.perf_counter()
        stretches = before
        last, first = len(trainer.history), before[-1].last + 1 if before else 1
        if last >= first:
            seconds = time.perf_counter() - self._begin
            stretches += (
                Stretch(first, last, device_name(self._device), trainer.precision, versions(),
                        round(seconds, 3), trainer.compiled),
            )  # fmt: skip
        if not bad:
            state = {
                "trainer": trainer.state_dict(),
                "stretches": [asdict(stretch) for stretch in stretches],
            }
            save_checkpoint(self._store.checkpoint(self._run), self._identity(trainer), state)
        self._save_epochs(trainer, stretches)

    def _save_epochs(self, trainer: Trainer, stretches: tuple[Stretch, ...]) -> None:
        """Write the epochs, unless more are stored already; those of a forced run in any case."""
        if self._how.force or len(trainer.history) > _epochs(self._run, self._store):
            self._store.save(self._run, Stored(trainer.history, stretches))


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
        """What progress calls it."""
        return self.run.describe()

    def content(self) -> dict[str, Any]:
        """Run and length."""
        return {"epochs": self.epochs, **json.loads(self.run.text())}

    def compute(self, advance: Advance) -> Columns:
        """Train it here, and return the numbers of its epochs."""
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


def train_on(
    engine: Engine,
    curves: Iterable[TrainingRuns],
    store: TrainingStore,
    progress: TrainingProgress,
    how: How,
) -> None:
    """Train every run that does not reach its last epoch, on the machines of an engine.

    Raises:
        ValueError: some runs failed; all others are complete and kept.
    """
    wanted, lacking = wanted_and_missing(curves, store, progress, force=how.force)
    if not lacking:  # a cluster takes long to start
        return
    # Absolute paths, because workers run in another folder.
    folder, logs = store.folder.absolute(), how.tensorboard and how.tensorboard.absolute()
    there = replace(how, device=how.device or the_device(None).type, tensorboard=logs)
    jobs = [Elsewhere(run, epochs, folder, there) for run, epochs, _ in lacking]
    failed = []
    with closing(outcomes(jobs, progress, engine)) as found:
        for place, _, failure in found:
            if failure:
                progress.note(f"{jobs[place].label} failed\n{failure}")
                failed.append(jobs[place].label)
            else:
                progress.finish()
    if failed:
        raise ValueError(f"{len(failed)} of {wanted} runs failed: {', '.join(failed)}")
