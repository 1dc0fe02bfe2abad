"""Do two source trees compute the same numbers? The paper's methods, bit for bit.

    python benchmarks/same_numbers.py OLD_SRC NEW_SRC

Each tree runs all configurations in a process of its own, those of two ranks under torchrun; the
parameters after the last step are compared by their bytes.
"""

import argparse
import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

STEPS = 40
PRACTICAL = {"scaling": "practical", "steps_per_epoch": None}
RESET = {"scaling": "practical", "steps_per_epoch": 20}
POLYAK, ARMIJO = "SHBPolyak", "SHBArmijo"


def configurations() -> dict[str, dict[str, Any]]:
    """All of them by name: the method, its options, and what is special about the run."""
    found: dict[str, dict[str, Any]] = {}
    for name in (POLYAK, ARMIJO):
        for scaling in ("theory", "practical", "plain"):
            for reset in (None, 20):
                options = {"scaling": scaling, "steps_per_epoch": reset}
                found[f"{name} {scaling} reset={reset}"] = {"name": name, "options": options}
        both = {"name": name, "options": RESET}
        plain = {"scaling": "plain", "steps_per_epoch": None, "max_step": 0.05}
        decay = {**RESET, "weight_decay": 0.01}
        found |= {
            f"{name} diminishing": {"name": name, "options": plain, "diminishing": True},
            f"{name} decoupled decay": {"name": name, "options": decay},
            f"{name} decay in the objective": {
                "name": name, "options": {**decay, "decay": "objective"},
            },
            f"{name} groups": {**both, "groups": True},
            f"{name} resume": {**both, "resume": True},
            f"{name} float64": {**both, "dtype": "float64"},
            f"{name} bfloat16": {**both, "dtype": "bfloat16"},
            f"{name} without momentum": {"name": name, "options": {**RESET, "momentum": 0.0}},
            f"{name} lower bound of a batch": {**both, "bound": True},
            f"{name} a NaN batch": {**both, "nan": True},
            f"{name} large tensors": {**both, "width": 700},
            f"{name} channels last": {**both, "images": True},
            f"{name} backward in the closure": {**both, "backward": True},
            f"{name} cosine schedule": {**both, "cosine": True},
            f"{name} two ranks": {**both, "ranks": True},
            f"{name} two ranks, decay in the objective": {
                "name": name, "options": {**decay, "decay": "objective"}, "ranks": True,
            },
        }  # fmt: skip
    found["SHBPolyak handed over"] = {"name": POLYAK, "options": RESET, "hand_over": True}
    found["SHBArmijo dropout and BatchNorm"] = {
        "name": ARMIJO, "options": RESET, "images": True, "dropout": True,
    }  # fmt: skip
    for name in ("SPS", "SLS"):
        found[name] = {"name": name, "options": {"c": 0.5, "steps_per_epoch": 20}}
    found["SHB"] = {"name": "SHB", "options": {"lr": 0.05}}
    found["SHB cosine schedule"] = {"name": "SHB", "options": {"lr": 0.05}, "cosine": True}
    found["SHB two ranks"] = {"name": "SHB", "options": {"lr": 0.05}, "ranks": True}
    return found


def build(setting: dict[str, Any]) -> Any:
    """The model and its batches, of one seed."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    dtype = getattr(torch, setting.get("dtype", "float32"))
    if setting.get("images"):
        drop = nn.Dropout(0.3) if setting.get("dropout") else nn.Identity()
        model: Any = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), drop, nn.Conv2d(8, 4, 3),
            nn.Flatten(),
            nn.Linear(64, 3),
        ).to(memory_format=torch.channels_last)  # fmt: skip
        inputs = torch.randn(STEPS, 16, 3, 8, 8)
    else:
        width = setting.get("width", 32)
        model = nn.Sequential(nn.Linear(10, width), nn.Tanh(), nn.Linear(width, 3))
        inputs = torch.randn(STEPS, 16, 10)
    model, inputs = model.to(dtype), inputs.to(dtype)
    targets = inputs.flatten(2).float().sum(-1).abs().long() % 3
    return model, inputs, targets


def run(setting: dict[str, Any]) -> str:
    """The digest of all parameters and buffers after the last step."""
    import torch
    from torch import distributed, nn

    import heavystep

    model, inputs, targets = build(setting)
    kind = getattr(heavystep, setting["name"])
    params: Any = list(model.parameters())
    if setting.get("groups"):
        params = [
            {"params": params[:2], "lr": 0.5, "weight_decay": 0.01},
            {"params": params[2:], "weight_decay": 0.1},
        ]
    options = dict(setting["options"])
    searches = setting["name"] in (ARMIJO, "SLS")
    if searches and setting.get("images"):
        options["buffers"] = model.buffers

    def make() -> Any:
        return kind(params, **options)

    opt = make()
    schedule: Any = None
    if setting.get("diminishing"):
        schedule = heavystep.Diminishing(opt, horizon=10.0)
    if setting.get("cosine"):
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS)
    ranks = setting.get("ranks")
    for k in range(STEPS):
        if setting.get("resume") and k == STEPS // 2:
            state = opt.state_dict()
            opt = make()
            opt.load_state_dict(state)
        inputs_k, targets_k = inputs[k], targets[k]
        if ranks:
            half = slice(distributed.get_rank() * 8, distributed.get_rank() * 8 + 8)
            inputs_k, targets_k = inputs_k[half], targets_k[half]
        factor = math.nan if setting.get("nan") and k == 7 else 1.0

        def loss_of(x: Any = inputs_k, y: Any = targets_k, factor: float = factor) -> Any:
            return factor * nn.functional.cross_entropy(model(x).float(), y)

        def mean_gradients() -> None:
            for param in model.parameters():
                distributed.all_reduce(param.grad)
                param.grad /= 2.0

        extra = {"lower_bound": 0.01 * (k % 3)} if setting.get("bound") else {}
        backward = setting.get("backward") or ranks

        def closure(loss_of: Any = loss_of, backward: Any = backward) -> Any:
            if not (backward and torch.is_grad_enabled()):
                return loss_of()
            opt.zero_grad()  # noqa: B023
            loss = loss_of()
            loss.backward()
            if ranks:
                mean_gradients()
            return loss

        if searches:
            opt.step(closure, **extra)
        else:
            opt.zero_grad()
            loss = loss_of()
            loss.backward()
            if ranks:
                mean_gradients()
            if setting.get("hand_over"):
                opt.hand_over(loss)
                opt.step(**extra)
            else:
                opt.step(loss=loss, **extra)
        if schedule is not None:
            schedule.step()
    digest = hashlib.sha256()
    for tensor in (*model.parameters(), *model.buffers()):
        digest.update(tensor.detach().double().contiguous().numpy().tobytes())
    total = sum(float(p.detach().double().square().sum()) for p in model.parameters())
    assert math.isfinite(total), setting
    return f"{digest.hexdigest()[:16]} {total:.17g}"


def work(out: Path) -> None:
    """Run all configurations of one process, or those of two ranks under torchrun."""
    import warnings

    import torch
    from torch import distributed

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    several = "RANK" in os.environ
    if several:
        distributed.init_process_group("gloo")
    chosen = {n: s for n, s in configurations().items() if bool(s.get("ranks")) == several}
    found = {name: run(setting) for name, setting in chosen.items()}
    if not several or distributed.get_rank() == 0:
        out.write_text(json.dumps(found))
    if several:
        distributed.barrier()  # a rank that leaves first aborts the other now and then
        distributed.destroy_process_group()


def numbers_of(tree: str, folder: Path) -> dict[str, str]:
    """What a source tree computes."""
    found: dict[str, str] = {}
    for launcher in ([], ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]):
        out = folder / "numbers.json"
        command = [sys.executable, *launcher, __file__, "--work", str(out)]
        environment = {**os.environ, "PYTHONPATH": tree, "OMP_NUM_THREADS": "1"}
        subprocess.run(command, check=True, env=environment)
        found |= json.loads(out.read_text())
    return found


def main() -> None:
    """Compare, a line for each configuration that differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trees", nargs="*", help="two folders that hold the package heavystep")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.work)
        return
    old, new = arguments.trees
    with tempfile.TemporaryDirectory() as folder:
        one, other = (numbers_of(tree, Path(folder)) for tree in (old, new))
    differing = [name for name in one if one[name] != other[name]]
    for name in differing:
        print(f"differs: {name}: {one[name]} against {other[name]}")
    print(f"{len(one) - len(differing)} of {len(one)} configurations are the same to the bit")
    sys.exit(bool(differing))


if __name__ == "__main__":
    main()
