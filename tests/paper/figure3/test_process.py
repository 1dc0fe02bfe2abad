"""``heavystep reproduce figure3`` from the outside: a person's commands, mistakes and signals."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from heavystep.cli.app import app
from heavystep.data.cifar import CIFAR
from heavystep.lab.figures.figure3 import QUICK
from heavystep.training import setup as training_setup
from heavystep.lab.training.runs import TrainingStore
from tests.helpers import tiny_cifar
from tests.helpers.data_sets import files_under, published_images
from tests.helpers.launch import PATIENCE
from tests.helpers.places import ROOT

COUNTS = {"cifar10": (103, 103, 103, 103, 100, 256), "cifar100": (512, 256)}
SMALL = ["--quick", "--seeds", "1", "--epochs", "1", "--device", "cpu"]
AS_A_PROCESS = """
import sys
from tests.helpers import tiny_cifar
from heavystep.cli.app import app
from heavystep.data.cifar import CIFAR
CIFAR["cifar10"], _ = tiny_cifar.sized("cifar10", {counts})
sys.argv = ["heavystep", *{arguments}]
app()
"""


def forget_images():
    training_setup.images_of.cache_clear()
    training_setup.colours_of.cache_clear()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A data folder with both sets, tiny."""
    monkeypatch.setenv("HEAVYSTEP_DATA", str(tmp_path / "data"))
    for name, counts in COUNTS.items():
        entry, contents = tiny_cifar.sized(name, counts)
        monkeypatch.setitem(CIFAR, name, entry)
        tiny_cifar.write(tmp_path / "data" / entry.folder, contents)
    forget_images()
    yield tmp_path / "data"
    forget_images()


def heavystep(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.slow
def test_the_whole_way(folder, tmp_path):
    out, logs = tmp_path / "out", tmp_path / "logs"
    made = heavystep("reproduce", "figure3", *SMALL, "--out", out, "--tensorboard", logs)
    assert made.exit_code == 0, made.output
    for name in ("figure3.png", "figure3.pdf", "figure3_steps.png", "figure3/table.md"):
        assert (out / name).is_file(), name
    claims = json.loads((out / "figure3" / "claims.json").read_text())
    assert len(claims) == 12
    assert all(set(claim) == {"id", "text", "holds", "measured"} for claim in claims)
    assert "16/16 runs" in made.stderr
    assert "not whether they hold" in made.stdout
    assert len(list((out / "figure3" / "runs").glob("*.parquet"))) == 16
    assert len(list((out / "figure3" / "checkpoints").glob("*.pt"))) == 16
    runs = [path for path in logs.iterdir() if any(path.glob("events.out.tfevents.*"))]
    assert len(runs) == 16
    written = {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")}
    again = heavystep("reproduce", "figure3", *SMALL, "--out", out)
    assert again.exit_code == 0
    assert "16 of 16 runs are there already" in again.stderr
    assert written == {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")}
    measured = heavystep("claims", "--out", out)
    assert measured.exit_code in (0, 1)
    assert "figure3.cifar100.SHB-PS.fixed" in measured.stdout


def test_missing_data_are_told_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("HEAVYSTEP_DATA", str(tmp_path / "nowhere"))
    forget_images()
    told = heavystep("reproduce", "figure3", "--quick", "--out", tmp_path / "out")
    assert told.exit_code == 2
    (line,) = told.stderr.splitlines()
    assert "heavystep data fetch cifar10" in line
    assert not (tmp_path / "out").exists()


def test_a_wrong_checksum_is_told_before_anything_is_written(folder, tmp_path):
    path = folder / CIFAR["cifar10"].folder / "data_batch_3.bin"
    content = bytearray(path.read_bytes())
    content[5000] ^= 1
    path.write_bytes(content)
    told = heavystep("reproduce", "figure3", *SMALL, "--out", tmp_path / "out")
    assert told.exit_code == 2
    (line,) = told.stderr.splitlines()
    assert "data_batch_3.bin" in line
    assert "sha256" in line
    assert not (tmp_path / "out").exists()


def test_a_device_that_is_not_here(folder, tmp_path):
    arguments = ["reproduce", "figure3", "--quick", "--out", tmp_path / "out", "--device"]
    assert "must be one of 'cpu', 'cuda', got 'tpu'" in heavystep(*arguments, "tpu").stderr
    import torch

    if not torch.cuda.is_available():
        told = heavystep(*arguments, "cuda")
        assert told.exit_code == 2
        assert told.stderr == "device is 'cuda', but torch sees no GPU here\n"
    assert not (tmp_path / "out").exists()


def wait_for(condition, process, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda n: n.name)
def test_a_process_that_is_ended_goes_on_where_it_was(number, folder, tmp_path):
    out = tmp_path / "out"
    arguments = ["reproduce", "figure3", "--quick", "--datasets", "cifar10", "--seeds", "1"]
    arguments += ["--device", "cpu", "--out", str(out)]
    code = AS_A_PROCESS.format(counts=COUNTS["cifar10"], arguments=[*arguments, "--epochs", "2"])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stderr=subprocess.PIPE, text=True
    )
    # The second run is in flight when the first one is complete.
    wait_for(lambda: any(out.rglob("*.pt")), process)
    process.send_signal(number)
    _, errors = process.communicate(timeout=PATIENCE)
    if number == signal.SIGTERM:
        assert process.returncode == 128 + number
        assert "the same command goes on there" in errors
        assert len(list(out.rglob("*.pt"))) == 2
    else:
        assert process.returncode == -number
    assert heavystep(*arguments, "--epochs", "2").exit_code == 0
    whole = tmp_path / "whole"
    heavystep(*arguments[:-1], str(whole), "--epochs", "2")
    stores = [TrainingStore(each / "figure3" / "runs") for each in (out, whole)]
    names = files_under(stores[0].folder)
    assert names == files_under(stores[1].folder)
    assert len(names) == 8
    assert same_numbers(*stores)


def same_numbers(one, other):
    from heavystep.training.results import survey

    histories = [
        {run: [row[:-1] for row in stored.history] for run, stored in survey(store, print)}
        for store in (one, other)
    ]
    return histories[0] == histories[1]


@pytest.mark.slow
def test_quickly_on_the_published_images(tmp_path, monkeypatch):
    monkeypatch.setenv("HEAVYSTEP_DATA", str(published_images(tmp_path / "data")))
    forget_images()
    made = heavystep(
        "reproduce", "figure3", "--quick", "--device", "cpu", "--out", tmp_path / "out"
    )
    forget_images()
    assert made.exit_code == 0, made.output
    assert "32/32 runs" in made.stderr
    assert QUICK.train_images == 256
