"""Count the files and Python calls that a step, or a command, goes through.

python benchmarks/walks.py
"""

import contextlib
import io
import os
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import heavystep

SOURCE = Path(heavystep.__file__).parent


def walk(action: Callable[[], object]) -> tuple[Counter[str], int, int]:
    """Calls by file of this package; all Python calls; how often control comes back to a file.

    All threads count. Imports do not, nor what they call.
    """
    calls: Counter[str] = Counter()
    order: list[str] = []
    total, here = 0, threading.local()

    def see(frame: Any, event: str, _: object) -> None:
        nonlocal total
        depth = getattr(here, "imports", 0)
        if frame.f_code.co_name == "<module>":
            here.imports = depth + {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not depth:
            total += 1
            path = Path(frame.f_code.co_filename)
            if path.is_relative_to(SOURCE):
                name = str(path.relative_to(SOURCE))
                calls[name] += 1
                if not order or order[-1] != name:
                    order.append(name)

    threading.setprofile(see)
    sys.setprofile(see)
    try:
        action()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return calls, total, len(order) - len(calls)


def step_of(name: str, **options: Any) -> Callable[[], object]:
    """The hundredth step of a small network."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 3))
    x, y = torch.randn(64, 20), torch.randint(3, (64,))
    opt = heavystep.create(name, model.parameters(), **options)
    given = {} if name == "SHB" else {"loss": None}

    def ready() -> None:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        given.update({"loss": loss} if given else {})

    for _ in range(101):
        ready()
        opt.step(**given)
    ready()
    return lambda: opt.step(**given)


def command(*words: str) -> Callable[[], object]:
    """A command of the shell, in this process."""
    from heavystep.cli import main

    def run() -> None:
        sys.argv = ["heavystep", *words]
        with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
            main()

    return run


def main() -> None:
    """Print one line a walk."""
    walks = {
        "SHB.step": step_of("SHB", lr=0.1),
        "SHBPolyak.step": step_of("SHBPolyak"),
        "HeavyStep.step, no diagonal": step_of("HeavyStep", diagonal=None),
        "HeavyStep.step": step_of("HeavyStep"),
        "heavystep methods": command("methods"),
    }
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        small = ("reproduce", "figure1", "--seeds", "2", "--iterations", "1000")
        walks["heavystep reproduce figure1"] = command(*small)
        for name, action in walks.items():
            calls, total, returns = walk(action)
            print(f"{name}: {len(calls)} files, {total} calls, {returns} returns")
            print("    " + ", ".join(f"{file} {count}" for file, count in calls.items()))


if __name__ == "__main__":
    main()
