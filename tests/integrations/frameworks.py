"""The same training run in each framework: a table of functions that take the same arguments.

Each trains ``net`` on ``batches`` with ``make(net.parameters())`` and returns the optimizer, behind
no wrapper. Gradients of ``micro_batches`` add up to a step.
"""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import NamedTuple

import pytest
import torch
from torch import nn

import heavystep
from heavystep.optimizers import searches
from tests.helpers.by_hand import bf16 as bfloat16
from tests.helpers.by_hand import fp16 as float16
from tests.helpers.training import loss_of


class Classifier(nn.Module):
    """A network that computes its loss, as Trainer asks for."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, labels):
        return {"loss": loss_of(self.net, (x, labels))}


def loop(
    net, make, batches, micro_batches=1, clip=None, bf16=False, scaler=None, epochs=1,
    attached=False,
):  # fmt: skip
    """Of one's own, with ``hand_over`` or ``attach``."""
    model, opt = Classifier(net), make(net.parameters())
    if attached:
        heavystep.attach(model, opt, scaler=scaler)
    context = float16 if scaler else bfloat16 if bf16 else nullcontext
    windows = [batches[k : k + micro_batches] for k in range(0, len(batches), micro_batches)]
    for parts in windows * epochs:
        for part in parts:
            with context():
                loss = model(*part)["loss"] / len(parts)
            if not attached:
                opt.hand_over(loss)
            loss.backward() if scaler is None else scaler.scale(loss).backward()
        if scaler is not None:
            scaler.unscale_(opt)
        if clip is not None:
            nn.utils.clip_grad_norm_(net.parameters(), clip)
        opt.step() if scaler is None else scaler.step(opt)
        if scaler is not None:
            scaler.update()
        opt.zero_grad()
    return opt


def lightning_trainer(callbacks=None, **options):
    from lightning.pytorch import Trainer

    from heavystep.integrations.lightning import HandOverLoss

    return Trainer(
        callbacks=[HandOverLoss()] if callbacks is None else callbacks, accelerator="cpu",
        logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, **options,
    )  # fmt: skip


def lightning_module(net, make, sharded=False):
    from lightning.pytorch import LightningModule
    from torch.distributed.fsdp import fully_shard

    class Module(LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net

        def configure_model(self):
            if sharded:
                fully_shard(self.net, mesh=self.device_mesh["data_parallel"])

        def training_step(self, batch):
            return loss_of(self.net, batch)

        def configure_optimizers(self):
            return make(self.net.parameters())

    return Module()


def loader(batches):
    return torch.utils.data.DataLoader(batches, batch_size=None)


def lightning(
    net, make, batches, micro_batches=1, clip=None, bf16=False, scaler=None, epochs=1,
    save=None, resume=None, sharded=False, **options,
):  # fmt: skip
    from lightning.pytorch.plugins import MixedPrecision

    trainer = lightning_trainer(
        max_epochs=epochs, accumulate_grad_batches=micro_batches, gradient_clip_val=clip,
        precision="bf16-mixed" if bf16 else None,
        plugins=[MixedPrecision("16-mixed", "cpu", scaler)] if scaler else None, **options,
    )  # fmt: skip
    checkpoint = None if resume is None else resume / "half.ckpt"
    trainer.fit(lightning_module(net, make, sharded), loader(batches), ckpt_path=checkpoint)
    if save is not None:
        trainer.save_checkpoint(save / "half.ckpt")
    return trainer.optimizers[0]


def accelerator(**options):
    """A new one: one process has one state, whatever another test asked for."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, GradientState, PartialState

    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()
    return Accelerator(cpu=True, **options)


def accelerate(
    net, make, batches, micro_batches=1, clip=None, bf16=False, scaler=None, epochs=1,
    save=None, resume=None,
):  # fmt: skip
    """The loop of Accelerate's own documentation, with one word changed."""
    from heavystep.integrations.accelerate import backward, step

    mixed = {"mixed_precision": "bf16"} if bf16 else {}
    found = accelerator(gradient_accumulation_steps=micro_batches, **mixed)
    found.scaler = scaler  # on a CPU Accelerate offers no float16, but works with one that is there
    model, opt = found.prepare(net, make(net.parameters()))
    data = found.prepare(loader(batches)) if found.num_processes == 1 else batches
    if scaler is not None:
        found.native_amp, found.state._mixed_precision = True, "fp16"  # so that clipping unscales
    if resume is not None:
        found.load_state(str(resume))
    for batch in (batch for _ in range(epochs // (1 if resume is None else 2)) for batch in data):
        if searches(opt.optimizer):
            step(found, opt, lambda: loss_of(model, batch))
            continue
        with found.accumulate(model):
            with float16() if scaler else nullcontext():
                loss = loss_of(model, batch)
            backward(found, opt, loss)
            if found.sync_gradients and clip is not None:
                found.clip_grad_norm_(model.parameters(), clip)
            opt.step()
            opt.zero_grad()
    if save is not None:
        found.save_state(str(save))
    return opt.optimizer


def hugging_face(folder, model, data, opt=None, cls=None, arguments=None, **options):
    """A Trainer that shuffles nothing."""
    from transformers import TrainingArguments

    from heavystep.integrations.transformers import HandOverTrainer

    usual = {
        "per_device_train_batch_size": 1, "num_train_epochs": 1, "max_grad_norm": 0.0,
        "lr_scheduler_type": "constant", "save_strategy": "no", "logging_strategy": "no",
    }  # fmt: skip
    arguments = TrainingArguments(
        str(folder), use_cpu=True, report_to=[], disable_tqdm=True, dataloader_pin_memory=False,
        train_sampling_strategy="sequential", **{**usual, **(arguments or {})},
    )  # fmt: skip
    chosen = {} if opt is None else {"optimizers": (opt, None)}
    return (cls or HandOverTrainer)(
        model=model, args=arguments, train_dataset=data, **chosen, **options
    )


def trainer(
    net, make, batches, micro_batches=1, clip=None, bf16=False, scaler=None, epochs=1,
    save=None, resume=None, attached=False, folder="unused",
):  # fmt: skip
    """Each example is a batch already."""
    import transformers

    from heavystep.integrations.transformers import HandOverTrainer

    class Half(HandOverTrainer):
        """In float16, which Trainer offers on a GPU only."""

        def compute_loss_context_manager(self):
            return float16() if scaler else nullcontext()

    model, opt = Classifier(net), make(net.parameters())
    found = hugging_face(
        save or resume or folder, model, batches,
        heavystep.attach(model, opt) if attached else opt,
        cls=transformers.Trainer if attached else Half if scaler else None,
        data_collator=lambda rows: {"x": rows[0][0], "labels": rows[0][1]},
        arguments={
            "gradient_accumulation_steps": micro_batches, "max_grad_norm": clip or 0.0,
            "num_train_epochs": epochs, "bf16": bf16,
            "save_strategy": "no" if save is None else "epoch",
        },
    )  # fmt: skip
    if scaler is not None:
        found.accelerator.scaler = scaler
    found.train(resume_from_checkpoint=resume is not None)
    return opt


class Framework(NamedTuple):
    train: Callable
    package: str = "torch"
    closures: bool = False
    divides_by_all: bool = False
    """True if the last, incomplete gradient of an epoch is divided as the others are."""
    saves: bool = False

    def __call__(self, net, make, batches, **options):
        pytest.importorskip(self.package)
        return self.train(net, make, batches, **options)


FRAMEWORKS = {
    "hand_over": Framework(loop),
    "attach": Framework(partial(loop, attached=True)),
    "lightning": Framework(lightning, "lightning", True, True, True),
    "accelerate": Framework(accelerate, "accelerate", True, True, True),
    "trainer": Framework(trainer, "transformers", saves=True),
    "attached trainer": Framework(partial(trainer, attached=True), "transformers"),
}


def over(names):
    """Trainer takes a while."""
    slow = [n for n in names if FRAMEWORKS[n].package == "transformers"]
    return pytest.mark.parametrize(
        "framework",
        [pytest.param(FRAMEWORKS[n], marks=pytest.mark.slow if n in slow else ()) for n in names],
        ids=list(names),
    )
