"""``heavystep reproduce figure3`` and ``heavystep claims``, with training made up."""

import csv
import io

import numpy as np
import pytest
from typer.testing import CliRunner

from heavystep.cli.app import app
from heavystep.lab.figures import reproduce, trained
from heavystep.paper.appendix_e import FIXED, METHODS
from heavystep.lab.figures.figure3 import PAPER, QUICK
from tests.helpers.figure3_results import BROKEN, fill, ideal
from tests.helpers.histories import EPOCHS, TINY, rows, save, spec, store_of


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


BAD = [
    (["figure1", "--epochs", "3"], "figure1 has no --epochs: it is for figure3 only"),
    (["figure2", "--no-train"], "figure2 has no --no-train: it is for figure3 only"),
    (["figure3", "--iterations", "9"], "figure3 has no --iterations: it is for figure1 and figure2"),
    (["figure3", "--max-step", "1"], "figure3 has no --max-step: it is for figure2 only"),
    (["figure3", "--jobs", "2"], "figure3 has no --jobs"),
    (["figure3", "--seeds", "0"], "seeds must be >= 1, got 0"),
    (["figure3", "--epochs", "0"], "epochs must be >= 1, got 0"),
    (["figure3", "--minutes", "0"], "minutes must be > 0 and finite, got 0.0"),
    (["figure3", "--minutes", "nan"], "minutes must be > 0 and finite, got nan"),
    (["figure3", "--device", "tpu"], "device must be one of 'cpu', 'cuda', got 'tpu'"),
    (["figure3", "--datasets", "cifar10,mnist"], "datasets must be one of 'cifar10', 'cifar100', got 'mnist'"),
    (["figure3", "--datasets", ""], "datasets must be one of 'cifar10', 'cifar100', got ''"),
    (["figure3", "--no-train", "--force"], "--no-train leaves nothing to do for --force"),
    (["figure3", "--methods", "SPS", "--methods", "Adam"], "methods must be one of 'SHB-PS', 'SPS', "),
    (["figure3", "--seed", "-1"], "seed must be >= 0, got -1"),
    (["figure3", "--seed", "0", "--seeds", "1"], "--seed and --seeds exclude each other"),
    (["figure1", "--seed", "0"], "figure1 has no --seed: it is for figure3 only"),
    (["figure3", "--no-train", "--no-compile"], "--no-train leaves nothing to do for --no-compile"),
    (["figure3", "--no-train"], "no runs to draw in"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_input_is_one_line(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke("reproduce", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def train(epochs_each=None):
    """In place of training: keep what is asked for, or less of it, and say whether all is there."""

    def train_missing(wanted, store, progress, how):
        train_missing.how = how
        progress.start(48, 0, 100)
        for run in (run for each in wanted for run in each.each()):
            epochs = epochs_each or EPOCHS
            save(store.folder.parent.parent, run, rows(**ideal(run.method.name))[:epochs])
        return epochs_each is None

    return train_missing


@pytest.fixture(autouse=True)
def no_images(monkeypatch):
    """None are read: what trains is made up."""
    monkeypatch.setattr(trained, "images_of", lambda data_set: None)


@pytest.mark.parametrize("worse", [False, True])
def test_at_full_size_claims_are_judged(worse, tmp_path, no_pictures):
    other = {"SLS": {"test_accuracy": np.full(EPOCHS, 0.2)}} if worse else {}
    fill(tmp_path, ("cifar10",), seeds=1, scale=PAPER, **other)
    result = invoke("reproduce", "figure3", "--no-train", "--out", claimed(tmp_path))
    assert result.exit_code == (1 if worse else 0)
    assert f"{5 if worse else 6} of 6 claims hold" in result.stdout


def claimed(out):
    """Mark a folder as ours."""
    (out / ".heavystep").write_text("")
    return out


ARGUMENTS = ["--quick", "--seeds", "1", "--epochs", EPOCHS, "--datasets", "cifar100,cifar100"]


def files(out):
    return {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}


def test_reproduce_writes_everything_and_claims_reads_it(tmp_path, monkeypatch):
    out = tmp_path / "results"
    trainer = train()
    monkeypatch.setattr(trained, "train_missing", trainer)
    both = invoke("reproduce", "figure3", *ARGUMENTS, "--force", "--minutes", 5, "--out", out)
    assert both.exit_code == 2
    assert both.stderr.startswith("--force and --minutes exclude each other")
    how = ["--device", "cpu", "--tensorboard", tmp_path / "log", "--force"]
    result = invoke("reproduce", "figure3", *ARGUMENTS, *how, "--out", out)
    assert result.exit_code == 0, result.output
    assert (trainer.how.device, trainer.how.minutes, trainer.how.force) == ("cpu", None, True)
    assert trainer.how.tensorboard == tmp_path / "log"
    pictures = {
        f"{name}.{kind}" for name in ("figure3", "figure3_steps") for kind in ("png", "pdf")
    }
    assert files(out) >= pictures | {"figure3/table.csv", "figure3/table.md", "figure3/claims.json"}
    assert len(list(store_of(out).folder.iterdir())) == 8
    assert "not whether they hold" in result.stdout
    shown = invoke("claims", "--out", out)
    assert shown.exit_code == 0
    assert "figure3.cifar100.PS.earlier" in shown.stdout
    assert "CIFAR-100 (256 images), 1 run of 20 epochs" in shown.stderr


def test_when_time_is_up_nothing_is_drawn(tmp_path, monkeypatch):
    out = tmp_path / "results"
    monkeypatch.setattr(trained, "train_missing", train(epochs_each=12))
    result = invoke("reproduce", "figure3", *ARGUMENTS, "--minutes", "1", "--out", out)
    assert result.exit_code == 3
    assert "64 epochs of 8 runs are missing; the same command goes on there" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not any(name.startswith("figure3.") for name in files(out))


@pytest.fixture
def no_pictures(monkeypatch):
    """They take seconds."""
    monkeypatch.setattr(reproduce, "_pictures", lambda *arguments: [])


def test_without_training_what_is_there_is_drawn(tmp_path, no_pictures):
    """Each data set as far as its methods go, with the seeds that go so far."""
    out = tmp_path / "results"
    fill(out, ("cifar10",), seeds=2, scale=QUICK)
    save(out, spec("cifar10", "SPS", 1, QUICK), rows(EPOCHS - 1))
    save(out, spec("cifar10", "SHB-ALS", 1, QUICK), rows(EPOCHS + 3))
    save(out, spec("cifar10", "SLS", 0, TINY), rows(3))  # of another figure
    save(out, spec("cifar100", "SLS", 0, QUICK), rows(4))
    (out / ".heavystep").write_text("")
    result = invoke("reproduce", "figure3", "--quick", "--no-train", "--out", out)
    assert result.exit_code == 0, result.output
    read = list(csv.DictReader(io.StringIO((out / "figure3" / "table.csv").read_text())))
    sizes = {(row["data_set"], row["method"]): (row["seeds"], row["epochs"]) for row in read}
    assert len(sizes) == 9
    assert sizes["cifar10", "SPS"] == ("1", "20")
    assert sizes["cifar10", "SLS"] == ("2", "20")
    assert sizes["cifar100", "SLS"] == ("1", "4")
    assert "not whether they hold" in result.stdout
    shown = invoke("claims", "--out", out)
    assert "figure3: a small network on CIFAR-10 (256 images), 1 to 2 runs of 20" in shown.stderr
    assert "figure3: only 1 of 8 methods are there" in shown.stderr
    too_long = invoke("reproduce", "figure3", "--quick", "--no-train", "--epochs", 24, "--out", out)
    assert too_long.exit_code == 2
    assert too_long.stderr.strip() == "no run reaches epoch 24, the longest has 23 epochs"


def test_images_are_read_for_what_will_be_trained(tmp_path, monkeypatch, no_pictures):
    asked = []
    monkeypatch.setattr(trained, "images_of", asked.append)
    monkeypatch.setattr(trained, "train_missing", train())
    fill(tmp_path, ("cifar100",), seeds=1, scale=QUICK)
    command = ["reproduce", "figure3", *ARGUMENTS, "--out", claimed(tmp_path)]
    assert invoke(*command).exit_code == 0
    assert asked == []
    assert invoke(*command, "--force").exit_code == 0
    assert set(asked) == {"cifar100"}


def test_a_short_method_is_named_where_it_shortens_the_others(tmp_path, no_pictures):
    fill(tmp_path, ("cifar10",), seeds=1, scale=QUICK)
    store_of(tmp_path).path(spec("cifar10", "SLS", 0, QUICK)).unlink()
    save(tmp_path, spec("cifar10", "SLS", 0, QUICK), rows(2))
    limit = f"cifar10: only the first 2 epochs of up to {EPOCHS}, because there are no more of SLS"
    assert limit in invoke("claims", "--out", tmp_path).stderr
    drawn = invoke("reproduce", "figure3", "--quick", "--no-train", "--out", claimed(tmp_path))
    assert limit in drawn.stderr


def test_claims_prefer_the_larger_scale(tmp_path):
    fill(tmp_path, ("cifar10",), seeds=1, scale=QUICK)
    small = invoke("claims", "--out", tmp_path)
    assert small.exit_code == 0
    assert "not whether they hold" in small.stdout
    assert "256 images" in small.stderr
    fill(tmp_path, ("cifar10",), seeds=1, scale=PAPER, **BROKEN["PS.earlier"])
    result = invoke("claims", "--out", tmp_path)
    assert result.exit_code == 1
    assert "figure3: ResNet-18 on CIFAR-10, 1 run of" in result.stderr
    assert "256 images" not in result.stderr
    assert "these do not: figure3.cifar10.PS.earlier" in result.stderr


def test_parts_are_made_anywhere_and_merged(tmp_path, monkeypatch, no_pictures):
    wanted = []
    monkeypatch.setattr(trained, "train_missing", train_and_tell(wanted))
    size = ["--quick", "--epochs", EPOCHS, "--datasets", "cifar10"]
    seeds, some = (
        ["--seed", 1, "--seed", 0, "--seed", 1],
        ["--methods", "SLS", "--methods", FIXED[1]],
    )
    parts = [tmp_path / name for name in ("a", "b", "c")]
    made = invoke("reproduce", "figure3", *size, *seeds, *some, "--out", parts[0])
    assert made.exit_code == 0, made.output
    assert set(wanted) == {(name, seed) for name in ("SLS", FIXED[1]) for seed in (0, 1)}
    others = [part for name in METHODS if name not in some for part in ("--methods", name)]
    invoke("reproduce", "figure3", *size, "--seed", 0, *others, "--out", parts[1])
    merged = invoke("store", "merge", *parts[:2], "--out", parts[2])
    assert merged.exit_code == 0, merged.output
    drawn = invoke("reproduce", "figure3", "--quick", "--no-train", "--out", parts[2])
    assert "at this size claims show how they are measured" in drawn.stdout, drawn.output
    only = invoke("reproduce", "figure3", "--quick", "--no-train", *some, "--out", parts[2])
    table = (parts[2] / "figure3" / "table.csv").read_text()
    assert [row["method"] for row in csv.DictReader(io.StringIO(table))] == ["SLS", FIXED[1]], only
    assert [row["seeds"] for row in csv.DictReader(io.StringIO(table))] == ["2", "2"]


def train_and_tell(wanted):
    """In place of training, with a list of the runs that were asked for."""

    def train_missing(curves, store, progress, how):
        curves = list(curves)
        wanted.extend((run.method.name, run.seed) for each in curves for run in each.each())
        return train()(curves, store, progress, how)

    return train_missing
