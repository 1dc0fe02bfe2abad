"""Numbers that pages quote are those of the tables that the benchmarks wrote."""

import csv
import re
from collections import defaultdict
from statistics import mean

import pytest
import torch

from heavystep.bench.tasks import task_of
from tests.helpers.pages import DOCS, table

SENSITIVITY = DOCS / "results" / "sensitivity"
METHODS = ("SHBPolyak", "SHBAdam", "SHBArmijo")


def rows_of(name):
    return csv.DictReader((SENSITIVITY / name).read_text().splitlines())


VERDICTS = {(row["task"], row["method"]): row for row in rows_of("verdicts.csv")}
ROWS = table(DOCS / "choosing.md", "in brackets at the average")
NUMBER = r"-?\d*\.?\d+"


def same(quoted, exact):
    """Whether a number is another one, rounded to the digits that it has."""
    digits = len(quoted.partition(".")[2])
    return abs(float(quoted) - exact) <= 0.5 * 10.0**-digits + 1e-9


def measured(task, method):
    row = VERDICTS[task, method]
    return float(row["metric"]), float(row["average_metric"])


def test_every_task_has_a_row():
    assert {re.search(r"`(\S+)`", row[0]).group(1) for row in ROWS} == {t for t, _ in VERDICTS}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_choosing_quotes_the_verdicts(row):
    task = re.search(r"`(\S+)`", row[0]).group(1)
    for cell, method in zip(row[1:4], METHODS, strict=True):
        assert all(map(same, re.findall(NUMBER, cell), measured(task, method))), cell
    known = re.search(NUMBER, row[4]).group()
    named = re.findall(r"`(\w+)`", row[4]) or METHODS
    assert all(same(known, measured(task, f"{method}+horizon")[0]) for method in named), row[4]
    rival = re.search(NUMBER, row[5]).group()
    assert same(rival, float(VERDICTS[task, METHODS[0]]["rival_metric"].split()[0]))


def gpu_runs():
    """Means over seeds of last iterate and average, by task and method or method and constant."""
    found, newest = defaultdict(list), {}
    versions = ("", "1", "5", "6")  # 3 is heavy ball, and those with words were tried only
    rows = [row for row in rows_of("gpu_runs.csv") if row["rule"] in versions]
    rows = [row for row in rows if (row["rule"], row["decay"]) != ("5", "step")]  # another decay
    for row in rows:
        if row["rule"] == "5" and ":lr=3:w" in row["method"]:  # there was no reach to turn off
            row |= {"rule": "6", "method": row["method"].replace(":lr=3:", ":lr=3:reach=1:")}
    for row in rows:
        key = row["task"], row["method"]
        newest[key] = max(newest.get(key, ""), row["rule"])
    for row in rows:
        if row["rule"] != newest[row["task"], row["method"]]:
            continue
        method = re.sub(r":weight_decay=0.0(005|5)(?!\d)", "", row["method"])
        if row["constant"] != "default":
            method += f" {row['constant']}"
        average = float(row["average_metric"] or "nan")
        found[row["task"], method].append((float(row["metric"]), average))
    return {key: tuple(map(mean, zip(*pairs, strict=True))) for key, pairs in found.items()}


def test_choosing_quotes_the_runs_on_a_gpu():
    runs = gpu_runs()
    methods = {
        "`SHBPolyak`, `total_steps`": "SHBPolyak+horizon",
        "`SHBAdam`, `total_steps`": "SHBAdam+horizon",
        "`SHBPolyak`, `lr=3`, `reach=1`": "SHBPolyak:lr=3:reach=1",
        "`SHBPolyak`, `lr=3`, `reach=1`, `total_steps`": "SHBPolyak:lr=3:reach=1+horizon",
    }
    seen = 0
    for first, gpt, cifar in table(DOCS / "choosing.md", "On one H200"):
        rival = re.match(r"(AdamW|SGD)( \+ cosine)?,", first)
        if rival:
            name = rival.group(1) + ("+cosine" if rival.group(2) else "")
            rates = ("0.01", "0.1", "1") if rival.group(1) == "SGD" else ("0.0001", "0.001", "0.01")
            for task, cell in (("gpt", gpt), ("cifar10", cifar)):
                exact = [runs[task, f"{name} {rate}"][0] for rate in rates if cell]
                assert all(map(same, re.findall(NUMBER, cell), exact))
                seen += len(exact)
            continue
        method = methods.get(first) or re.search(r"`?(\w+)", first).group(1)
        for task, cell in (("gpt", gpt), ("cifar10", cifar)):
            if (task, method) in runs:
                quoted = re.findall(NUMBER, cell.partition(", one")[0])
                assert all(map(same, quoted, runs[task, method]))
                seen += len(quoted)
    assert seen == 35


def test_the_front_page_quotes_the_same():
    """Of its table: CIFAR-10, both GPTs, the VAE and the regression."""
    runs = gpu_runs()
    exact = {
        "ResNet-18": (*runs["cifar10", "SHBPolyak"], runs["cifar10", "SHBPolyak+horizon"][0]),
        "character GPT": (*runs["gpt", "SHBAdam"], runs["gpt", "SHBAdam+horizon"][0]),
        "small character GPT": (
            *measured("charlm", "SHBAdam"),
            measured("charlm", "SHBAdam+horizon")[0],
        ),
        "VAE": (*measured("vae", "SHBAdam"), measured("vae", "SHBAdam+horizon")[0]),
        "regression with noise": (
            *measured("regression", "SHBAdam"),
            measured("regression", "SHBAdam+horizon")[0],
        ),
    }
    rows = table(DOCS.parent / "README.md", "in brackets at the average")
    for beginning, numbers in exact.items():
        (row,) = (row for row in rows if row[0].startswith(beginning))
        quoted = re.findall(NUMBER, " ".join(row[1:3]).replace("%, one seed", ""))
        assert len(quoted) == 3
        assert all(map(same, quoted, numbers))


def counted(loss, task, seed, start):
    """A loss, or that before the first step if a run ended above it; the page has its mean alone."""
    if not loss > start:  # a run that stopped counts as the start, too
        return min(start, loss)
    chosen = task_of(task)
    return min(loss, chosen.begun(seed, torch.device("cpu"), chosen.usual).measured().loss)


def test_the_summary_of_untouched_defaults_is_that_of_the_tables():
    """From the runs, and l_0 and l* as the pages of the tasks have them."""
    left = {}
    for task in sorted({task for task, _ in VERDICTS}):
        page = (SENSITIVITY / f"{task}.md").read_text()
        start, least = (
            float(re.search(rf"{name} = ([-+.\de]+) ", page).group(1)) for name in ("l_0", r"l\*")
        )
        losses = defaultdict(list)
        for row in rows_of(f"{task}_grid.csv"):
            if row["value"] == "default":
                for ending, name in (("", "loss"), (", averaged", "average_loss")):
                    loss = counted(float(row[name]), task, int(row["seed"]), start)
                    losses[row["method"] + ending].append(loss)
        left[task] = {
            name: max(100 * (mean(found) - least) / (start - least), 0.0)
            for name, found in losses.items()
        }
    rows = list(rows_of("untouched.csv"))
    assert len(rows) > 10
    for row in rows:
        found = [parts[row["method"]] for parts in left.values()]
        assert float(row["mean"]) == pytest.approx(mean(found), rel=1e-3)
        assert float(row["worst"]) == pytest.approx(max(found), rel=1e-3)
        assert int(row["level"]) == sum(part <= 2.0 for part in found)
    quoted = table(SENSITIVITY / "README.md", "## Everybody with nothing set")
    assert [line[0] for line in quoted] == [row["method"] for row in rows]
    for line, row in zip(quoted, rows, strict=True):
        assert line[1] == f"{float(row['mean']):.2g}%"


def test_the_page_has_the_notes():
    assert (SENSITIVITY / "notes.md").read_text() in (SENSITIVITY / "README.md").read_text()


@pytest.mark.parametrize("page", ["docs/choosing.md", "README.md"])
def test_pages_quote_the_summary(page):
    means = {row["method"]: f"{float(row['mean']):.2g}%" for row in rows_of("untouched.csv")}
    text = " ".join((DOCS.parent / page).read_text().split())
    for method in ("SHBAdam", "SHBPolyak"):
        averaged, told = means[f"{method}, averaged"], means[f"{method}+horizon"]
        quoted = re.search(
            rf"`{method}` (?:is on average )?{means[method]}.{{0,200}}", text
        ).group()
        assert averaged in quoted
        assert told in quoted
    for name, method in (("Schedule-Free", "ScheduleFree"), ("Prodigy", "Prodigy")):
        assert f"{name} {means[method]}" in text
    assert f"AdamW {means['AdamW']}" in text
    assert f"SGD {means['SGD']}" in text


def test_the_page_of_weight_decay_quotes_its_table():
    folder = DOCS / "results" / "weight_decay"
    rows = list(csv.DictReader((folder / "table.csv").read_text().splitlines()))
    quoted = table(folder / "README.md", "weight_decay.py")
    for (method, loss, accuracy, average), row in zip(quoted, rows, strict=True):
        assert method == row["method"]
        assert loss == f"{float(row['loss']):.2g}"
        assert accuracy == f"{float(row['accuracy']):.2f}%"
        assert average in (f"{float(row['average_accuracy']):.2f}%", "-")
        assert (average == "-") == method.startswith("SGD")
