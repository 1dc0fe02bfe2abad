"""Trains in a framework on this process's share of each batch; run by torchrun."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import distributed

from heavystep import SHBArmijo
from tests.helpers.by_hand import polyak
from tests.helpers.training import flat, loss_of, make_batches, make_net

BATCHES = 8


class Run(NamedTuple):
    """An optimizer and how a step is made of batches."""

    make: Callable
    searches: bool
    micro_batches: int


RUNS = {"SHBPolyak": Run(polyak, False, 2), "SHBArmijo": Run(SHBArmijo, True, 1)}


def shares(rank, ranks):
    """What a rank sees of each batch."""
    return [
        tuple(part.chunk(ranks)[rank] for part in batch)
        for batch in make_batches(BATCHES, dtype=torch.float64)
    ]


def lightning(run, rank, ranks, strategy="ddp"):
    from lightning.pytorch import LightningModule, Trainer
    from torch.distributed.fsdp import fully_shard

    from heavystep.integrations.lightning import HandOverLoss

    class Module(LightningModule):
        def __init__(self):
            super().__init__()
            self.net = make_net(dtype=torch.float64)

        def configure_model(self):
            if strategy != "ddp":
                fully_shard(self.net, mesh=self.device_mesh["data_parallel"])

        def training_step(self, batch):
            return loss_of(self.net, batch)

        def configure_optimizers(self):
            return run.make(self.parameters())

    module = Module()
    trainer = Trainer(
        max_epochs=1, accelerator="cpu", strategy=strategy, devices=ranks, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        use_distributed_sampler=False, callbacks=[HandOverLoss()],
        accumulate_grad_batches=run.micro_batches,
    )  # fmt: skip
    trainer.fit(module, torch.utils.data.DataLoader(shares(rank, ranks), batch_size=None))
    if strategy == "ddp":
        return flat(module.net)
    return torch.cat([each.full_tensor().flatten() for each in module.net.parameters()]).detach()


def sharded_lightning(run, rank, ranks):
    """FSDP 2."""
    from lightning.pytorch.strategies import ModelParallelStrategy

    return lightning(run, rank, ranks, ModelParallelStrategy(ranks, 1))


def accelerate(run, rank, ranks):
    from accelerate import Accelerator

    from heavystep.integrations.accelerate import backward, step

    accelerator = Accelerator(cpu=True)
    accelerator.gradient_accumulation_steps = run.micro_batches
    net = make_net(dtype=torch.float64)
    model, opt = accelerator.prepare(net, run.make(net.parameters()))
    for batch in shares(rank, ranks):
        if run.searches:
            step(accelerator, opt, lambda: loss_of(model, batch))
            continue
        with accelerator.accumulate(model):
            backward(accelerator, opt, loss_of(model, batch))
            opt.step()
            opt.zero_grad()
    return flat(net)


def transformers(out, rank, ranks):
    from tests.integrations import test_transformers

    model = test_transformers.language_model()
    found = test_transformers.trainer(
        out, model, test_transformers.sentences(24), polyak, gradient_accumulation_steps=3
    )
    assert found.args.average_tokens_across_devices
    found.train()
    return {"parameters": flat(model), "seen": found.seen}


def main(framework, out):
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if framework == "transformers":
        found = transformers(out, rank, ranks)
    else:
        train = {
            "lightning": lightning,
            "sharded lightning": sharded_lightning,
            "accelerate": accelerate,
        }[framework]
        found = {name: train(run, rank, ranks) for name, run in RUNS.items()}
    assert distributed.get_world_size() == ranks  # the framework made the group
    torch.save(found, Path(out, f"{rank}.pt"))
    distributed.barrier()  # a rank that leaves early closes connections that others still use
    distributed.destroy_process_group()
    # Gloo's threads may outlive the interpreter and then end the process with SIGABRT.
    os._exit(0)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*sys.argv[1:])
