"""What each constant of the default rule is worth: off, halved and doubled, task by task.

    python benchmarks/ablation.py docs/results/ablation

Runs that are in FOLDER/runs.csv are not made again, so that it can be stopped at any moment;
FOLDER/ablation.csv is the table: the mean over tasks of the change of the training loss, in percent
of the loss before the first step, and of the metric on unseen data, in percent of what is left to
be gained (an error, or 100 less an accuracy).
"""

import argparse
import csv
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

from heavystep.lab.comparison.tasks import TASKS
from heavystep.lab.comparison.train import START, TaskRun
from heavystep.rules import heavystep as rule

OFF = 1e9
TAU = "Tau"  # no constant of the rule: what its tau is multiplied by
CHANGES = {
    "nothing": {},
    "tau halved": {TAU: 0.5},
    "tau doubled": {TAU: 2.0},
    "trust off": {"TRUST": OFF},
    "trust halved": {"TRUST": 0.5 * rule.TRUST},
    "trust doubled": {"TRUST": 2.0 * rule.TRUST},
    "warm-up off": {"WARM_UP": 1.0},
    "warm-up halved": {"WARM_UP": 0.5 * rule.WARM_UP},
    "warm-up doubled": {"WARM_UP": 2.0 * rule.WARM_UP},
    "power halved": {"POWER": 0.5 * rule.POWER},
    "power doubled": {"POWER": 2.0 * rule.POWER},
    "noise off": {"PATIENCE": OFF},
    "patience halved": {"PATIENCE": 0.5 * rule.PATIENCE},
    "patience doubled": {"PATIENCE": 2.0 * rule.PATIENCE},
    "outliers count": {"SPREAD": OFF},
    "spread halved": {"SPREAD": 0.5 * rule.SPREAD},
    "spread doubled": {"SPREAD": 2.0 * rule.SPREAD},
    "depth halved": {"DEPTH": 0.5 * rule.DEPTH},
    "depth doubled": {"DEPTH": 2.0 * rule.DEPTH},
    "level estimated": {"lower_bound": "None"},
    "momentum 0.8": {"momentum": 0.8},
    "momentum 0.95": {"momentum": 0.95},
}
TRIED = (
    "toy-30", "toy-110", "digits-30", "digits-110", "mlp", "cnn", "frozen", "regression", "nll",
    "units", "targets-0.01", "targets-100", "inputs-100", "summed", "diabetes", "vae",
    "recommender", "diffusion", "lstm",
)  # fmt: skip
FIELDS = ("task", "change", "seed", "loss", "metric")


@contextmanager
def changed(change: Mapping[str, Any]) -> Iterator[str]:
    """The name of the contender, while the constants of the rule are others."""
    constants = {name: value for name, value in change.items() if name.isupper()}
    before, resolve = {name: getattr(rule, name) for name in constants}, rule.HEAVYSTEP.resolve

    def resolved(options: Mapping[str, Any]) -> dict[str, Any]:
        found = dict(resolve(options))
        return found | {"length": found["length"] * change.get(TAU, 1.0)}

    options = ",".join(f"{name}={value}" for name, value in change.items() if name.islower())
    try:
        vars(rule).update(constants)
        object.__setattr__(rule.HEAVYSTEP, "resolve", resolved)
        yield f"HeavyStep:{options}" if options else "HeavyStep"
    finally:
        vars(rule).update(before)
        object.__setattr__(rule.HEAVYSTEP, "resolve", resolve)


def one(task: str, change: str, seed: int) -> dict[str, object]:
    """A row of the runs."""
    with changed(CHANGES.get(change, {})) as contender:
        steps = 0 if change == START else TASKS[task].steps
        name = START if change == START else contender
        found = TaskRun(task, name, None, seed, steps).compute(lambda amount: None)
    return dict(
        zip(FIELDS, (task, change, seed, found["loss"][0], found["metric"][0]), strict=True)
    )


def summary(rows: list[dict[str, str]], change: str) -> tuple[float, float, str, float, int]:
    """Mean changes of loss and metric, the task that loses most and how much, and how many."""
    numbers = {(r["task"], r["change"], r["seed"]): r for r in rows}
    losses: dict[str, list[float]] = {}
    metrics: dict[str, list[float]] = {}
    for (task, name, seed), row in numbers.items():
        start, usual = (numbers.get((task, each, seed)) for each in (START, "nothing"))
        if name != change or start is None or usual is None:
            continue
        whole = abs(float(start["loss"])) if task != "nll" else 3.0  # which begins near 0
        loss, worst = float(row["loss"]), 2.0 * whole
        loss = worst if math.isnan(loss) else min(loss, worst)
        losses.setdefault(task, []).append(100.0 * (loss - float(usual["loss"])) / whole)
        if task != "nll":  # whose metric has no zero
            left = [100.0 - float(r["metric"]) if TASKS[task].metric.better > 0
                    else float(r["metric"]) for r in (row, usual)]  # fmt: skip
            ratio = left[0] / left[1] if left[1] > 0.0 and not math.isnan(left[0]) else 1.0
            metrics.setdefault(task, []).append(100.0 * math.log(max(ratio, 1e-3)))
    if not losses:
        return math.nan, math.nan, "", math.nan, 0
    most = max(losses, key=lambda task: fmean(losses[task]))
    means = [fmean(map(fmean, each.values())) for each in (losses, metrics)]
    return means[0], means[1], most, fmean(losses[most]), len(losses)


def main() -> None:
    """Make what is missing, and the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    store = asked.folder / "runs.csv"
    rows = list(csv.DictReader(store.open())) if store.exists() else []
    done = {(row["task"], row["change"], int(row["seed"])) for row in rows}
    with store.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if not rows:
            writer.writeheader()
        for seed in range(asked.seeds):
            for task in TRIED:
                for change in (START, *CHANGES):
                    if (task, change, seed) not in done:
                        writer.writerow(one(task, change, seed))
                        file.flush()
    rows = list(csv.DictReader(store.open()))
    with (asked.folder / "ablation.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("change", "loss_percent", "unseen_percent", "worst_task", "worst", "tasks"))
        for change in CHANGES:
            loss, unseen, most, worst, count = summary(rows, change)
            line = (change, f"{loss:+.2f}", f"{unseen:+.1f}", most, f"{worst:+.1f}", count)
            table.writerow(line)
            print(*line)


if __name__ == "__main__":
    main()
