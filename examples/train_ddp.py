"""Train on several processes, with a step size that chooses itself.

``torchrun --nproc-per-node 2 examples/train_ddp.py``, or ``python examples/train_ddp.py`` for one
process, which takes the same steps up to rounding. With ``--checkpoint FILE`` a process may die and
all go on after the last complete epoch, if torchrun is told so::

    TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --max-restarts 3 --nproc-per-node 2 ...

(without the variable, processes that start again may look for the dead ones: pytorch issue 135712).
"""

import argparse
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

# Its functions keep the group that there is when torch first imports it, here none. Otherwise
# destroy_process_group() would leave gloo's threads running, and one of them that still releases
# a tensor when the interpreter ends would abort the process.
import torch.distributed.nn
from sklearn.datasets import load_digits
from torch import Tensor, distributed, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from heavystep import SLS, SPS, HeavyStep, SHBArmijo, SHBPolyak
from heavystep.optim import RuleOptimizer

METHODS: dict[str, Callable[..., RuleOptimizer]] = {
    "heavystep": HeavyStep,
    "polyak": SHBPolyak,
    "armijo": partial(SHBArmijo, c=0.5),  # for small batches
    "sps": SPS,
    "sls": SLS,
}
BATCH = 64
"""Of all processes together."""


def load(device: torch.device) -> tuple[TensorDataset, TensorDataset]:
    """Images in [0, 1] and labels, for training and for testing."""
    digits = load_digits()
    x = torch.tensor(digits.data / 16.0, dtype=torch.float32, device=device)
    y = torch.tensor(digits.target, device=device)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    train, test = order[:1500], order[1500:]
    return TensorDataset(x[train], y[train]), TensorDataset(x[test], y[test])


def save(path: Path, state: dict[str, object]) -> None:
    """Under another name first: whoever reads it finds a whole checkpoint, old or new."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    torch.save(state, unfinished)
    os.replace(unfinished, path)


@torch.no_grad()
def report(net: nn.Module, opt: RuleOptimizer, epoch: int, sets: tuple[TensorDataset, ...]) -> None:
    (x, y), (x_test, y_test) = (each.tensors for each in sets)
    loss = cross_entropy(net(x), y).item()
    accuracy = (net(x_test).argmax(1) == y_test).float().mean().item()
    assert opt.info is not None
    step = float(opt.info.step)
    results = f"loss {loss:.6f}, accuracy {accuracy:.2%}, last step {step:.3g}"
    print(f"epoch {epoch}: {results}", flush=True)


def train(arguments: argparse.Namespace, rank: int, ranks: int, device: torch.device) -> None:
    sets = load(device)
    sampler: DistributedSampler[Tensor] = DistributedSampler(sets[0], ranks, rank, drop_last=True)
    loader = DataLoader(sets[0], BATCH // ranks, sampler=sampler, drop_last=True)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
    method = METHODS[arguments.method]
    opt = method(net.parameters(), lower_bound=0.0)
    done, path = 0, arguments.checkpoint
    if path and path.exists():
        state = torch.load(path, map_location=device, weights_only=True)
        net.load_state_dict(state["net"])
        opt.load_state_dict(state["opt"])
        done = state["epochs"]
        if rank == 0:
            print(f"goes on after epoch {done}", flush=True)
    model = DistributedDataParallel(net) if distributed.is_initialized() else net
    for epoch in range(done + 1, arguments.epochs + 1):
        sampler.set_epoch(epoch)
        for x, y in loader:

            def closure(x: Tensor = x, y: Tensor = y) -> Tensor:
                return cross_entropy(model(x), y)

            opt.step(closure)  # the same step on all processes
        if rank == 0:
            report(net, opt, epoch, sets)
            if path:
                state = {"net": net.state_dict(), "opt": opt.state_dict(), "epochs": epoch}
                save(path, state)


def main() -> None:
    parser = argparse.ArgumentParser(description="scikit-learn's digits on several processes.")
    parser.add_argument("--method", choices=METHODS, default="heavystep")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--checkpoint", type=Path, help="a file that all processes can read")
    arguments = parser.parse_args()
    if arguments.epochs < 1:
        parser.error("--epochs must be at least 1")
    # What torchrun tells its processes.
    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    here, local = int(os.environ.get("LOCAL_WORLD_SIZE", "1")), os.environ.get("LOCAL_RANK", "0")
    device = torch.device("cpu")
    if torch.cuda.device_count() >= here:
        device = torch.device("cuda", int(local))
        torch.cuda.set_device(device)
    torch.set_num_threads(1)  # the network is tiny
    if "RANK" not in os.environ:
        train(arguments, rank, ranks, device)
        return
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    # In a function of its own, because a model that is still there keeps the group.
    train(arguments, rank, ranks, device)
    distributed.barrier()  # whoever leaves first closes connections that others still use
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
