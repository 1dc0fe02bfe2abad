"""Starts the processes of ``bench distributed``, and collects what they measure."""

import json
import os
import tempfile
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch

# Its functions keep the group that there is when torch first imports it, here none. Otherwise the
# group would outlive destroy_process_group(), and its threads might abort a process that ends.
import torch.distributed.nn
from torch import distributed
from torch.multiprocessing.spawn import ProcessException, spawn

from heavystep import validation
from heavystep.bench.distributed import RanksCost, Size, StepCost, measured
from heavystep.files import write_atomically
from heavystep.training.setup import versions

PATIENCE = timedelta(seconds=60)
"""After this time a rank gives up waiting for another one."""


def backend_for(ranks: int) -> str:
    """NCCL where every rank has a GPU of its own, else gloo on the CPU."""
    return "nccl" if torch.cuda.device_count() >= ranks else "gloo"


def ranks_cost(ranks: int, size: Size) -> RanksCost:
    """The costs of all methods with this many ranks, as rank 0 measures them.

    Args:
        ranks: number of processes, each with one thread.
        size: the sizes of what is measured.

    Raises:
        ValueError: ``ranks`` is out of range, or one of the ranks failed.
    """
    validation.integer("ranks", ranks, least=1)
    with tempfile.TemporaryDirectory() as folder:
        try:
            spawn(_rank, (ranks, size, folder), nprocs=ranks)  # type: ignore[no-untyped-call]
        except ProcessException as error:
            last = str(error).strip().splitlines()[-1]
            raise ValueError(f"rank {error.error_index} of {ranks} failed: {last}") from None
        return _cost(json.loads((Path(folder) / "found.json").read_text()))


def save(path: Path, costs: list[RanksCost], load: float) -> None:
    """Write the costs to a JSON file, with the machine on which they were measured.

    Args:
        path: the file.
        costs: one entry for each number of ranks.
        load: the load average of the machine before the measurement.
    """
    what = {"versions": versions(), "cores": os.cpu_count(), "load": load}
    text = json.dumps({**what, "costs": [asdict(cost) for cost in costs]}, indent=1) + "\n"
    write_atomically(path, lambda temporary: temporary.write_text(text))


def stored(path: Path) -> list[RanksCost]:
    """The costs in a file that :func:`save` wrote."""
    return [_cost(found) for found in json.loads(path.read_text())["costs"]]


def _cost(found: dict[str, Any]) -> RanksCost:
    return RanksCost(**{**found, "steps": [StepCost(**step) for step in found["steps"]]})


def _rank(rank: int, ranks: int, size: Size, folder: str) -> None:
    """What one process does."""
    torch.set_num_threads(1)
    backend = backend_for(ranks)
    device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    distributed.init_process_group(
        backend, f"file://{folder}/store", PATIENCE, world_size=ranks, rank=rank
    )
    found = measured(size, device, f"{backend} on {device.type}")
    if rank == 0:
        (Path(folder) / "found.json").write_text(json.dumps(asdict(found)))
    distributed.barrier()  # whoever leaves first closes connections that others still use
    distributed.destroy_process_group()
