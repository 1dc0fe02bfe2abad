"""From the specification of a training run to its trainer."""

import platform
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from heavystep import __version__, optim, validation
from heavystep.data.cifar import CIFAR, TrainTest, load_cifar
from heavystep.methods import method_of
from heavystep.training.images import Colours, colours
from heavystep.training.memory import fitting_batch
from heavystep.training.resnet import NETWORKS
from heavystep.training.specification import UNSAID, MethodSpec, TrainingSpec
from heavystep.training.trainer import Labelled, Trainer

DEVICES = ("cpu", "cuda")
BFLOAT16_LOSSES = {"loss_eps": 2.0**-12, "example_loss": 1.0}
"""What a line search has to know of losses from bfloat16 activations. The relative rounding error
of a minibatch of 256 images, a ResNet-18 and a cross-entropy l was measured, by moving parameters
by 1e-6 of themselves, as 4e-4 / sqrt(l) from l = 2 (0.03%) to l = 2e-4 (2.3%). With 2^-12 alone
searches end half way through 200 epochs, in steps of 1e-7; with 2^-7 they compare nothing at the
start. A search tolerates four times what is given here."""


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
    scale, (train, test) = run.scale, images_of(run.data_set)
    torch.manual_seed(run.seed)
    return Trainer(
        NETWORKS[scale.network](CIFAR[run.data_set].classes),
        lambda network, steps: optimizer_of(run.method, network, steps, device),
        Labelled(*train).first(scale.train_images),
        Labelled(*test).first(scale.test_images),
        batch_size=batch_size or scale.batch_size,
        seed=run.seed,
        device=device,
        scale=colours_of(run.data_set, scale.train_images),
        compiled=compiled,
    )


def compiling_pays(run: TrainingSpec, device: torch.device) -> bool:
    """Whether a run is faster with a compiled network: a large one on a GPU where it works.

    A line search compares losses of a forward with and without gradients. Compiled, these are two
    graphs whose roundings differ, by less than what :data:`BFLOAT16_LOSSES` lets pass.
    """
    large = run.scale.network != "small"
    return device.type == "cuda" and large and compiles(device)


@cache
def compiles(device: torch.device) -> bool:
    """Whether torch can: it wants Triton, a C compiler and a GPU that is not too old."""
    with warnings.catch_warnings():
        # Once a process: that products in float32 could be faster. Ours are in bfloat16.
        warnings.simplefilter("ignore")
        try:
            torch.compile(lambda x: x + 1.0)(torch.zeros((), device=device))
        except Exception:  # of many kinds, and none keeps a run from being trained
            return False
    return True


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
    optimizer: Optimizer = getattr(optim, method.optimizer)(network.parameters(), **options)
    return optimizer


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
def chosen_kernels() -> Iterator[None]:
    """Let cuDNN try its algorithms, which is worth it because shapes never change."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


@contextmanager
def threads_for(network: str) -> Iterator[None]:
    """Use one thread for the small network, and all of them for the others.

    The threads of the small network would wait for each other more than they help, above all on a
    busy machine. With one thread its numbers do not depend on the number of cores.
    """
    before = torch.get_num_threads()
    if network == "small":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


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


def advice(run: TrainingSpec, device: torch.device) -> str:
    """Say which batch size would fit, after a run has run out of GPU memory."""

    def attempt(batch_size: int) -> None:
        trainer = trainer_of(run, device, batch_size=batch_size)
        for _ in range(5):  # warm-up, recording, replay
            trainer.take_step()
        torch.cuda.synchronize()

    fits = fitting_batch(attempt, run.scale.batch_size)
    remedy = f"{fits} would fit" if fits else "not even one image fits"
    return f"{run.describe()}: out of GPU memory with batches of {run.scale.batch_size}; {remedy}"
