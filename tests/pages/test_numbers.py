"""Numbers that pages quote are those of the tables that the benchmarks wrote."""

import csv
import re
from collections import defaultdict
from statistics import mean

import pytest

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
    found = defaultdict(list)
    for row in rows_of("gpu_runs.csv"):
        method = row["method"].replace(":weight_decay=0.0005", "")
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
    }
    seen = 0
    for first, gpt, cifar in table(DOCS / "choosing.md", "On one H200"):
        rates = re.match(r"AdamW( \+ cosine)?,", first)
        if rates:
            name = "AdamW+cosine" if rates.group(1) else "AdamW"
            exact = [runs["gpt", f"{name} {rate}"][0] for rate in ("0.0001", "0.001", "0.01")]
            assert all(map(same, re.findall(NUMBER, gpt), exact))
            seen += len(exact)
            continue
        method = methods.get(first) or re.search(r"`?(\w+)", first).group(1)
        for task, cell in (("gpt", gpt), ("cifar10", cifar)):
            if (task, method) in runs:
                quoted = re.findall(NUMBER, cell.partition(", one")[0])
                assert all(map(same, quoted, runs[task, method]))
                seen += len(quoted)
    assert seen == 21


def test_the_front_page_quotes_the_same():
    """Of its table: CIFAR-10, the GPT, the VAE and the regression."""
    runs = gpu_runs()
    exact = {
        "ResNet-18": (*runs["cifar10", "SHBPolyak"], runs["cifar10", "SHBPolyak+horizon"][0]),
        "character GPT": (*runs["gpt", "SHBAdam"], runs["gpt", "SHBAdam+horizon"][0]),
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
