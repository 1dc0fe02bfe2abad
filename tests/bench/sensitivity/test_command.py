"""``heavystep bench sensitivity`` from the shell: files, what is kept, and what is refused."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from typer.testing import CliRunner

from heavystep.bench.sensitivity import run as writing
from heavystep.bench.sensitivity.others import OTHERS
from heavystep.bench.tasks import TASKS
from heavystep.bench.tasks import images as cifar_task
from heavystep.cli.app import app
from heavystep.cli.sensitivity import METHODS as METHODS_TEXT
from heavystep.cli.sensitivity import TASKS as TASKS_TEXT
from tests.helpers.places import ROOT

SMALL = ("--seeds", 1, "--jobs", 1)


def invoke(*arguments):
    return CliRunner().invoke(app, ["bench", "sensitivity", *map(str, arguments)])


@pytest.fixture
def no_pictures(monkeypatch):
    """They take seconds."""
    monkeypatch.setattr(writing, "save", lambda canvas, path, dpi, endings: [])


def runs_in(out):
    return sorted((out / "sensitivity" / "runs").glob("*.parquet"))


@pytest.mark.slow
def test_it_writes_pictures_tables_and_a_page(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "DPI", 40)
    shown = invoke("--tasks", "tiny", "--methods", "SHBPolyak,AdamW", "--quick", "--jobs", 1,
                   "--out", tmp_path)  # fmt: skip
    assert shown.exit_code == 0, shown.output
    folder = tmp_path / "sensitivity"
    written = {path.name for path in folder.iterdir()}
    assert written == {
        "runs", "README.md", "verdicts.csv", "scores.png", "tiny.png", "tiny.csv", "tiny.md",
        "tiny_grid.csv", "tiny.json", "untouched.csv", "untouched.png",
    }  # fmt: skip
    assert len(runs_in(tmp_path)) == 3 + 1  # no step of ours reaches the largest ones on its grid
    assert "3 runs are not made: no step comes near their largest step" in shown.stderr
    page = (folder / "README.md").read_text()
    for part in ("| [tiny](tiny.md) | SHBPolyak | ", "![scores](scores.png)",
                 "![untouched](untouched.png)"):  # fmt: skip
        assert part in page
    of_task = (folder / "tiny.md").read_text()
    for part in ("# tiny\n", "![tiny](tiny.png)", "**SHBPolyak**: metric", "| SHBPolyak | "):
        assert part in of_task
    (verdict,) = csv.DictReader((folder / "verdicts.csv").read_text().splitlines())
    assert verdict["method"] == "SHBPolyak"
    assert verdict["task"] in shown.stdout
    facts = json.loads((folder / "tiny.json").read_text())
    assert set(facts["scores"]) == set(facts["untouched"]) == {"SHBPolyak", "AdamW"}


def test_what_is_there_is_not_made_again(tmp_path, no_pictures):
    one = ("--tasks", "tiny", *SMALL, "--out", tmp_path)
    assert invoke(*one, "--methods", "AdamW").exit_code == 0
    files = runs_in(tmp_path)
    before = {path: path.read_bytes() for path in files}
    files[0].unlink()  # as if it had been stopped there
    more = invoke(*one, "--methods", "AdamW,SHBPolyak")
    assert more.exit_code == 0, more.output
    assert "7 of 8 runs are there already" in more.stderr  # ours is made first: it spares seven
    assert all(path.read_bytes() == before[path] for path in files[1:])
    seeds = invoke(
        "--tasks", "tiny", "--seeds", 2, "--jobs", 1, "--methods", "AdamW", "--out", tmp_path
    )
    assert "7 of 14 runs are there already" in seeds.stderr
    finer = invoke(*one, "--methods", "AdamW", "--per-decade", 2)
    assert "7 of 13 runs are there already" in finer.stderr
    folder = tmp_path / "sensitivity"
    (folder / "notes.md").write_text("## What I think\n\nC'est très petit.", "utf-8")
    again = invoke("--tasks", "tiny normed", *SMALL, "--methods", "AdamW", "--out", tmp_path)
    assert again.exit_code == 0, again.output
    page = (folder / "README.md").read_text("utf-8")
    assert "très petit.\n\n## Verdicts" in page
    assert "[tiny](tiny.md), [tiny normed](<tiny normed.md>)." in page
    assert page.index("## Scores") < page.index("\n## What I think\n") < page.index("## Verdicts")
    (folder / "notes.md").write_bytes(b"tr\xe8s")
    made = runs_in(tmp_path)
    refused = invoke("--tasks", "tiny normed", *SMALL, "--methods", "SGD", "--out", tmp_path)
    assert refused.exit_code == 2
    assert runs_in(tmp_path) == made  # before anything is run
    assert "notes.md must be text in UTF-8" in refused.stderr


@pytest.mark.slow
def test_killed_it_goes_on(tmp_path):
    command = [
        sys.executable, "-m", "heavystep", "bench", "sensitivity", "--tasks", "units", "--methods",
        "AdamW,SGD", "--quick", "--seeds", "8", "--jobs", "1", "--out", str(tmp_path),
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    driver = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
    try:
        end = time.monotonic() + 60.0
        while len(runs_in(tmp_path)) < 5 and time.monotonic() < end:
            time.sleep(0.02)
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.communicate()
    kept = {path: path.read_bytes() for path in runs_in(tmp_path)}
    assert 5 <= len(kept) < 48
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert f"{len(kept)} of 48 runs are there already" in again.stderr
    assert len(runs_in(tmp_path)) == 48
    assert all(path.read_bytes() == content for path, content in kept.items())


def test_a_method_that_diverges_is_kept_and_counted(tmp_path, no_pictures):
    shown = invoke(
        "--tasks", "tiny", "--methods", "SGD", "--per-decade", 1, *SMALL, "--out", tmp_path
    )
    assert shown.exit_code == 0, shown.output
    (row,) = csv.DictReader((tmp_path / "sensitivity" / "tiny.csv").read_text().splitlines())
    assert row["failed"] == "1"  # lr = 1
    again = invoke("--tasks", "tiny", "--methods", "SGD", *SMALL, "--out", tmp_path)
    assert "7 of 7 runs are there already" in again.stderr


def test_a_missing_package_costs_its_method_only(tmp_path, no_pictures, monkeypatch):
    monkeypatch.setitem(sys.modules, "prodigyopt", None)
    shown = invoke("--tasks", "tiny", "--methods", "Prodigy,AdamW", *SMALL, "--out", tmp_path)
    assert shown.exit_code == 0, shown.output
    line = "Prodigy is left out: it needs prodigyopt: pip install 'heavystep[bench]'"
    assert shown.stderr.count(line) == 1
    page = (tmp_path / "sensitivity" / "tiny.md").read_text()
    assert "Left out: Prodigy (it needs prodigyopt" in page


def test_missing_data_are_one_line(tmp_path, no_pictures, monkeypatch):
    monkeypatch.setenv("HEAVYSTEP_DATA", str(tmp_path / "nothing"))
    both = invoke(
        "--tasks", "tiny,tiny lost,charlm", "--methods", "AdamW", *SMALL, "--out", tmp_path / "a"
    )
    assert both.exit_code == 0, both.output
    assert "tiny lost is left out: its data are at sea" in both.stderr
    assert "charlm is left out: no " in both.stderr
    assert "heavystep data fetch tinyshakespeare" in both.stderr
    alone = invoke("--tasks", "charlm", *SMALL, "--out", tmp_path / "b")
    assert (alone.exit_code, alone.stdout) == (2, "")
    assert alone.stderr.count("\n") == 1
    assert "nothing can be run; charlm is left out: no " in alone.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_task_of_a_gpu_without_one(tmp_path):
    shown = invoke("--tasks", "gpt", "--out", tmp_path)
    assert shown.exit_code == 2
    assert "gpt is left out: it needs a GPU, and torch sees none" in shown.stderr
    shown = invoke("--tasks", "gpt", "--device", "cuda", "--out", tmp_path)
    assert shown.exit_code == 2
    assert "torch sees no GPU here" in shown.stderr


def test_runs_that_fail_cost_their_method_only(tmp_path, no_pictures, monkeypatch):
    monkeypatch.setattr(torch.optim.SGD, "step", fail)
    shown = invoke("--tasks", "tiny", "--methods", "SGD,AdamW", *SMALL, "--out", tmp_path)
    assert shown.exit_code == 1, shown.output
    assert "tiny: SGD is left out, because runs failed" in shown.stderr
    (row,) = csv.DictReader((tmp_path / "sensitivity" / "tiny.csv").read_text().splitlines())
    assert row["method"] == "AdamW"


def fail(*arguments, **options):
    raise RuntimeError("on purpose")


REFUSED = {
    "task": (["--tasks", "tinny"], "task must be one of"),
    "method": (["--methods", "SPSSave"], "no method is named 'SPSSave'; nearest: SPSSafe"),
    "seeds": (["--seeds", "0"], "seeds must be >= 1, got 0"),
    "grid": (["--per-decade", "0"], "per_decade must be >= 1, got 0"),
    "device": (["--device", "abacus"], "device must be one of 'cpu', 'cuda'"),
    "jobs": (["--tasks", "tiny", "--jobs", "0"], "jobs must be >= 1"),
}


@pytest.mark.parametrize(("arguments", "text"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_one_line(arguments, text, tmp_path):
    shown = invoke(*arguments, "--out", tmp_path / "out")
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert text in shown.stderr
    assert shown.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_the_help_names_everything():
    for name in TASKS:
        assert name.startswith("tiny") or name in TASKS_TEXT
    for name in OTHERS:
        assert name in METHODS_TEXT
    assert cifar_task.IMAGES[0].usual.steps == 30 * 195
