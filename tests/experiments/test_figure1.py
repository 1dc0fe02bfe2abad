"""Figure 1: its runs as data, the store, resuming, claims that can fail, the commands."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from heavystep.cli.app import app
from heavystep.experiments import specification
from heavystep.experiments.claims import figure1_claims, slope
from heavystep.experiments.figure1 import BETAS, figure1
from heavystep.experiments.reproduce import MARK
from heavystep.experiments.runner import complete
from heavystep.experiments.store import DamagedError, Store

SMALL = {"seeds": 2, "iterations": 1000}
ARGUMENTS = ["--seeds", "2", "--iterations", "1000"]


class Quiet:
    """A progress that keeps what it was told."""

    def __init__(self):
        self.notes, self.begun, self.steps, self.finished = [], [], 0, 0

    def start(self, runs, kept, steps):
        self.started = (runs, kept, steps)

    def note(self, text):
        self.notes.append(text)

    def begin(self, run):
        self.begun.append(run)

    def advance(self, steps):
        self.steps += steps

    def finish(self):
        self.finished += 1


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    figure, store = figure1(**SMALL), Store(tmp_path_factory.mktemp("runs"))
    return figure, store, complete(figure, store, Quiet(), jobs=2, force=False)


def test_the_figure_is_section_5s():
    figure = figure1()
    assert [panel.id for panel in figure.panels] == list("abcdefgh")
    assert [len(panel.curves) for panel in figure.panels] == [5, 5, 2, 2, 5, 5, 2, 2]
    runs = figure.runs().values()
    assert len(runs) == 28
    assert {run.seeds for run in runs} == {20}
    assert {run.iterations for run in runs} == {10**6}
    assert {run.method.c for run in runs} == {0.75}
    assert {run.method.omega for run in runs} == {None, 0.5}
    standard = {run.method.beta for run in runs if run.method.scaling == "theory"}
    assert standard == set(BETAS)


def test_keys_depend_on_everything(monkeypatch):
    run = next(iter(figure1(**SMALL).runs().values()))
    others = [
        replace(run, seeds=3),
        replace(run, iterations=999),
        replace(run, method=replace(run.method, c=0.76)),
        replace(run, problem=replace(run.problem, setting=0.3)),
    ]
    keys = {run.key(), *(other.key() for other in others)}
    assert len(keys) == 5
    assert run.key() == next(iter(figure1(**SMALL).runs().values())).key()
    monkeypatch.setattr(specification, "mathematics_version", lambda: "another")
    assert run.key() not in keys


def test_what_is_there_is_not_run_again(made):
    figure, store, results = made
    progress = Quiet()
    again = complete(figure, store, progress, jobs=1, force=False)
    assert progress.started == (28, 28, 0)
    assert progress.begun == []
    for key, result in results.items():
        np.testing.assert_array_equal(again[key].k, result.k)
        assert again[key].seeds == result.seeds
        for name, values in result.metrics.items():
            np.testing.assert_array_equal(again[key].metrics[name], values)


def damage_cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def damage_empty(path):
    path.write_bytes(b"")


def damage_flip(path):
    content = bytearray(path.read_bytes())
    content[-6] ^= 0xFF
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("damage", [damage_cut, damage_empty, damage_flip])
def test_a_damaged_file_is_found_reported_and_run_again(made, tmp_path, damage):
    figure, store, _ = made
    copy = Store(tmp_path)
    for path in store.folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    victim = next(iter(figure.runs().values()))
    whole = copy.path(victim).read_bytes()
    damage(copy.path(victim))
    with pytest.raises(DamagedError, match=copy.path(victim).name):
        copy.load(victim)
    progress = Quiet()
    complete(figure, copy, progress, jobs=2, force=False)
    assert len(progress.notes) == 1
    assert "run again" in progress.notes[0]
    assert progress.finished == 1
    assert copy.path(victim).read_bytes() == whole


def test_a_file_under_another_name_is_not_taken_for_the_run(made, tmp_path):
    figure, store, _ = made
    first, second, *_ = figure.runs().values()
    copy = Store(tmp_path)
    copy.path(first).write_bytes(store.path(second).read_bytes())
    with pytest.raises(DamagedError, match="is not the run that its name says"):
        copy.load(first)


def test_an_interrupted_write_leaves_nothing(made, tmp_path, monkeypatch):
    figure, _, results = made
    key, run = next(iter(figure.runs().items()))
    store = Store(tmp_path / "runs")

    def full_disk(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(OSError, match="No space left"):
        store.save(run, results[key])
    assert list((tmp_path / "runs").iterdir()) == []


def test_claims_can_fail(made):
    """Each predicate turns false on numbers that break it, and on no others."""
    figure, _, results = made
    flat = {
        name: np.ones_like(values) for name, values in next(iter(results.values())).metrics.items()
    }
    spoiled = {
        "bound": lambda m: {**m, "gap_average": m["gap_average"] * 1e9, "best": m["best"] * 1e9},
        "steps": lambda m: {**m, "lowest": 0.5 * flat["lowest"]},
        "last": lambda m: {**m, "gap_last": flat["gap_last"], "grad_last": flat["grad_last"]},
        "rate": lambda m: {**m, "gap_average": flat["gap_average"], "best": flat["best"]},
        "diminishing": lambda m: {**m, "gap_average": flat["gap_average"], "best_after": flat["best"]},
        "neighbourhood": lambda m: {**m, "gap_last": 1e9 * flat["best"], "grad_last": 1e9 * flat["best"]},
    }  # fmt: skip
    for name, spoil in spoiled.items():
        wrong = {key: replace(r, metrics=spoil(r.metrics)) for key, r in results.items()}
        claims = {claim.id: claim.holds for claim in figure1_claims(figure, wrong)}
        assert not any(holds for id_, holds in claims.items() if id_.endswith(f".{name}")), name


def test_claims_cover_every_panel(made):
    figure, _, results = made
    claims = figure1_claims(figure, results)
    kinds = {panel: {c.id[2:] for c in claims if c.id[0] == panel} for panel in "abcdefgh"}
    for panel in "abef":
        assert kinds[panel] == {"bound", "rate", "last", "steps"}
    for panel in "cdgh":
        assert kinds[panel] == {"bound", "neighbourhood", "diminishing", "steps"}
    json.dumps([claim.as_json() for claim in claims], allow_nan=False)


def test_slope():
    k = np.logspace(0, 4, 50)
    assert slope(k, 3.0 / k, 1.0) == pytest.approx(-1.0)
    assert slope(k, np.where(k > 5000, 0.0, 1 / k), 1.0) < -100


def invoke(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_reproduce_writes_everything_and_claims_reads_it(tmp_path):
    out = tmp_path / "results"
    result = invoke("reproduce", "figure1", *ARGUMENTS, "--out", str(out), "--jobs", "2")
    assert result.exit_code in (0, 1), result.output  # claims need more than 1000 steps
    files = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert files >= {"figure1.png", "figure1.pdf", "figure1/claims.json", MARK}
    assert len([name for name in files if name.endswith(".parquet")]) == 28
    entries = json.loads((out / "figure1" / "claims.json").read_text())
    assert {"id", "text", "holds", "measured"} == set(entries[0])
    shown = invoke("claims", "--out", str(out))
    assert shown.exit_code == int(not all(entry["holds"] for entry in entries))
    assert "figure1.a.bound" in shown.stdout
    picture = (out / "figure1.png").read_bytes()
    again = invoke("reproduce", "figure1", *ARGUMENTS, "--out", str(out))
    assert "28 of 28 runs are there already" in again.output
    assert (out / "figure1.png").read_bytes() == picture


BAD = [
    (["reproduce", "figure9"], r"figure must be one of 'figure1', got 'figure9'"),
    (["reproduce", "figure1", "--seeds", "-3"], r"seeds must be >= 2, got -3"),
    (["reproduce", "figure1", "--iterations", "0"], r"iterations must be >= 1000, got 0"),
    (["reproduce", "figure1", "--jobs", "0"], r"jobs must be >= 1, got 0"),
    (["claims", "--out", "nowhere"], r"no claims under nowhere"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_input_is_one_line(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_unknown_option_is_refused():
    assert invoke("reproduce", "figure1", "--sedes", "3").exit_code == 2


def test_a_folder_that_is_not_ours_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    result = invoke("reproduce", "figure1", *ARGUMENTS, "--out", str(tmp_path))
    assert result.exit_code == 2
    assert "holds other files" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_an_unwritable_folder_is_told(tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("")
    result = invoke("reproduce", "figure1", *ARGUMENTS, "--out", str(blocker / "results"))
    assert result.exit_code == 2
    assert f"cannot write to {blocker / 'results'}" in result.stderr


def tables(out):
    return {
        path.name: path.read_bytes()
        for path in sorted((out / "figure1" / "runs").glob("*.parquet"))
    }


def test_killed_in_the_middle_it_goes_on_to_the_same_bytes(tmp_path):
    command = [sys.executable, "-m", "heavystep", "reproduce", "figure1", "--seeds", "2",
               "--iterations", "40000"]  # fmt: skip
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    subprocess.run([*command, "--out", str(whole)], capture_output=True, check=False)
    process = subprocess.Popen(
        [*command, "--out", str(broken)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    runs = broken / "figure1" / "runs"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and len(list(runs.glob("*.parquet"))) < 3:
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = len(list(runs.glob("[!.]*.parquet")))
    assert 3 <= kept < 28
    subprocess.run([*command, "--out", str(broken)], capture_output=True, check=False)
    assert tables(broken) == tables(whole)
    assert len(tables(whole)) == 28
    assert (broken / "figure1" / "claims.json").read_text() == (
        whole / "figure1" / "claims.json"
    ).read_text()
    assert Path(broken / "figure1.png").read_bytes() == Path(whole / "figure1.png").read_bytes()
