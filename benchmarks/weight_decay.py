"""What weight decay adds: ResNet-18 on CIFAR-10 with 5e-4, ours without a schedule beside SGD's.

``python benchmarks/weight_decay.py`` trains SHB-PS as in Figure 3 and SHBPolyak with nothing set,
both with decoupled weight decay, and SGD with momentum, torch's weight decay, a warm-up and a
cosine, for several learning rates. The loop is that of ``heavystep bench sensitivity``, and so is
the store: runs that are there are not made again. The table goes to OUT/weight_decay.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

from heavystep.bench.sensitivity.loop import Setting
from heavystep.bench.sensitivity.plan import OneRun
from heavystep.bench.tasks import task_of
from heavystep.bench.tasks.images import EPOCHS
from heavystep.cli.progress import RunProgress
from heavystep.paper.appendix_e import MAX_STEP, METHODS, SCALING
from heavystep.paper.table import csv_text, piped
from heavystep.sweeps.engines import LocalEngine
from heavystep.sweeps.output_folder import claim_folder, runs_folder
from heavystep.sweeps.process_engine import isolated
from heavystep.sweeps.runner import complete
from heavystep.sweeps.store import Store
from heavystep.training.setup import the_device

FOLDER, TASK = "weight_decay", "cifar10"
DECAY = "weight_decay=0.0005"
LEARNING_RATES = (0.05, 0.1, 0.2)


class Row(NamedTuple):
    """A run at its end."""

    method: str
    loss: float
    """Of all training images as they are."""
    accuracy: float
    average_accuracy: float
    """At the averaged iterate; NaN where there is none."""


def contenders(steps_an_epoch: int) -> dict[str, str]:
    """What is trained, in the words of the table and of the benchmark."""
    paper = METHODS["SHB-PS"].options | {"max_step": MAX_STEP}
    options = ":".join(f"{name}={value}" for name, value in paper.items())
    rule = f"scaling={SCALING}:{options}:steps_per_epoch={steps_an_epoch}"
    found = {
        "SHB-PS of the paper": f"SHBPolyak:{rule}:{DECAY}",
        "SHBPolyak, nothing set": f"SHBPolyak:{DECAY}",
    }
    for lr in LEARNING_RATES:
        found[f"SGD, lr = {lr:g}, cosine"] = f"SGD:lr={lr:g}:{DECAY}+cosine"
    return found


def main() -> None:
    """Train what is missing and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--jobs", type=int, default=len(LEARNING_RATES) + 2)
    parser.add_argument("--out", type=Path, default=Path("results"))
    given = parser.parse_args()
    task = task_of(TASK)
    try:
        the_device(given.device)
    except ValueError as error:
        parser.error(str(error))
    if reason := task.missing():
        parser.error(reason)
    an_epoch = task.usual.steps // EPOCHS
    size = task.usual._replace(steps=given.epochs * an_epoch)
    runs = {}
    for label, name in contenders(an_epoch).items():
        setting = Setting(TASK, name, None, given.seed, size, given.device, average=True)
        runs[label] = OneRun(setting, label)
    claim_folder(given.out)
    store = Store(runs_folder(given.out, FOLDER))
    with RunProgress() as progress:
        engine = isolated(LocalEngine(given.jobs))
        results = complete(
            {run.key(): run for run in runs.values()}, store, progress, engine=engine
        )
    rows = []
    for label, run in runs.items():
        ends = {name: float(values[0, -1]) for name, values in results[run.key()].metrics.items()}
        rows.append(Row(label, ends["loss"], ends["metric"], ends["average_metric"]))
    folder = given.out / FOLDER
    folder.mkdir(exist_ok=True)
    (folder / "table.csv").write_text(csv_text(rows))
    lines = [["", "training loss", "accuracy", "at the average"], ["---", *["---:"] * 3]]
    for row in rows:
        average = f"{row.average_accuracy:.2f}%" if row.average_accuracy > 0.0 else "-"
        lines.append([row.method, f"{row.loss:.2g}", f"{row.accuracy:.2f}%", average])
    print(piped(lines))


if __name__ == "__main__":
    main()
