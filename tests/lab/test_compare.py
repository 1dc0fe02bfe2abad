"""The comparison: tasks repeat, contenders are told apart, runs are literal, the table adds up."""

import copy
import csv
import dataclasses
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss
from typer.testing import CliRunner

from heavystep import SHBPolyak
from heavystep.cli import lab as command
from heavystep.cli.app import app
from heavystep.lab.comparison import tasks
from heavystep.lab.comparison.contenders import FORMULAS, OTHERS, contender_of
from heavystep.lab.comparison.page import compare
from heavystep.lab.comparison.plans import plans
from heavystep.lab.comparison.table import COLUMNS, KEY, RunTable, outcome_of, rows_of
from heavystep.lab.comparison.tasks import HIGHER, LOWER, TASKS, Metric, Task, task_of
from heavystep.lab.comparison.tasks.contract import Supervised
from heavystep.lab.comparison.train import NUMBERS, START, TaskRun
from heavystep.lab.data import SETS, Examples, Split
from heavystep.lab.training.trainer import LOOK_EVERY
from tests.helpers.places import ROOT

CPU = torch.device("cpu")
STORED = ROOT / "docs" / "results" / "compare" / "runs.csv"
POLYAK = "SHBPolyak:scaling=practical"
STEPS = 12
ERROR = Metric("test error", LOWER, "%", 2.0)


def examples(count, seed):
    inputs = torch.randn(count, 3, generator=torch.Generator().manual_seed(seed))
    return Examples(inputs, inputs @ torch.tensor([1.0, -2.0, 0.5]) + 3.0)


def work_of(network, seed, device):
    def criterion(outputs, targets):
        return mse_loss(outputs.squeeze(1), targets)

    data = Split(examples(24, 0), examples(10, 1))
    return Supervised(seed, device, network, data, criterion, batch_size=6)


def normed(seed, device):
    parts = nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.25), nn.Linear(8, 1)
    return work_of(nn.Sequential(*parts), seed, device)


def linear(seed, device):
    return work_of(nn.Linear(3, 1), seed, device)


TINY = {
    "tiny": Task("tiny", "a line", ERROR, STEPS, linear, seeds=2),
    "normed": Task("normed", "a line through BatchNorm", ERROR, STEPS, normed),
    "lost": Task("lost", "a line", ERROR, STEPS, normed, lambda: "its data are at sea"),
}


@pytest.fixture
def tiny(monkeypatch):
    """Tasks of a few milliseconds, beside the real ones."""
    for name, task in TINY.items():
        monkeypatch.setitem(TASKS, name, task)


def done(contender, value=None, task="tiny", steps=STEPS, average=False, seed=0):
    found = TaskRun(task, contender, value, seed, steps, average=average).compute(lambda n: None)
    return {name: float(each[0]) for name, each in found.items()}


# Tasks


def at_hand(name):
    task = TASKS[name]
    if missing := task.missing():
        pytest.skip(missing)
    return task


CHEAP = [
    n for n, t in TASKS.items() if not t.gpu and t.problem is None and n not in ("vit", "lora")
]


@pytest.mark.parametrize("name", CHEAP)
def test_a_seed_decides_weights_and_batches(name):
    task, found = at_hand(name), []
    for seed in (3, 3, 4):
        work = task.begun(seed, CPU)
        opt = torch.optim.SGD(work.parameters(), lr=1e-3)  # what begins at 0 moves
        for _ in range(3):
            work.next()
            work.prepare()
            torch.manual_seed(7)
            opt.zero_grad()
            loss = work.loss()
            loss.backward()
            opt.step()
            found.append(loss.item())
    assert found[:3] == found[3:6] != found[6:]
    assert len(set(found[:3])) == 3


@pytest.mark.parametrize(
    "name", ["mlp", "cnn", "vae", "diffusion", "toy-30", "recommender", "source"]
)
def test_an_evaluation_repeats_itself_and_leaves_no_trace(name):
    work = at_hand(name).begun(0, CPU)
    before, stream = copy.deepcopy(work.network.state_dict()), torch.get_rng_state()
    assert work.measured() == work.measured()
    assert work.network.training
    assert torch.equal(stream, torch.get_rng_state())
    assert all(map(torch.equal, before.values(), work.network.state_dict().values()))


def read(text):
    return list(csv.DictReader(text.splitlines()))


@pytest.mark.parametrize("name", [name for name in CHEAP if name not in ("source", "recommender")])
def test_stored_runs_began_where_runs_begin_now(name):
    """Data, network and initial weights are those of the runs that are kept in the project."""
    task = at_hand(name)
    for line in read(STORED.read_text()):
        if (line["task"], line["method"]) == (name, START) and int(line["seed"]) < task.seeds:
            found = task.begun(int(line["seed"]), CPU).measured()
            # Sums of up to a million terms, in float32 where a network is.
            assert found == pytest.approx((float(line["loss"]), float(line["metric"])), rel=1e-4)


def test_stored_runs_are_recognised():
    """What is kept is not run again; versions of packages and of Python are those that it names."""
    rows, known = read(STORED.read_text()), 0
    for row in rows:
        other = OTHERS.get(row["method"].partition("+")[0].partition(":")[0])
        if row["task"] in ("source", "lora") or (other and other.package):
            continue
        value = float(row["value"]) if row["value"] else None
        run = row["task"], row["method"], value, int(row["seed"]), int(row["steps"])
        assert row["key"] in {TaskRun(*run, on).key()[:KEY] for on in ("cpu", "cuda")}, row
        known += 1
    assert known > 0.6 * len(rows) > 2000


PINNED = {
    "HeavyStep": (1, 10.9959145),
    "HeavyStep:diagonal=tensor": (1, 10.7316065),
    "HeavyStep:diagonal=None": (1, 9.87838364),
    "SHBPolyak:scaling=practical": (1, 2.21619821),
    "SHBArmijo:scaling=practical": (1, 91.3022537),
    "SFPolyak": (1, 1.01462209),
    "ScheduleFreePlus": (1, 1.96012652),
}


@pytest.mark.parametrize("name", PINNED)
def test_numbers_are_those_of_the_version(name, tiny):
    """Stored runs are those of the present formulas."""
    version, loss = PINNED[name]
    assert contender_of(name).identity(None)["version"] == str(version), "pin the new numbers"
    assert done(name)["loss"] == pytest.approx(loss, rel=1e-5), "raise the version in FORMULAS"


def test_adapters_train_little_and_begin_as_the_network_was():
    at_hand("lora")
    work = TASKS["lora"].begun(0, CPU)
    trained = sum(param.numel() for param in work.parameters())
    assert 0 < trained < 0.1 * sum(param.numel() for param in work.network.parameters())
    pretrained, numbers = tasks.text.pretrained(), torch.arange(64).view(1, 64)
    assert torch.equal(work.network(numbers), pretrained(numbers))


def test_a_path_is_a_task(tmp_path, monkeypatch):
    (tmp_path / "rows").write_text("1 1:1 2:0.5\n-1 1:-1\n1 2:2\n" * 50)
    monkeypatch.chdir(tmp_path)
    assert task_of("rows").begun(0, CPU).measured().loss == pytest.approx(math.log(2.0))
    with pytest.raises(ValueError, match="task must be one of"):
        task_of("raws")


def test_names_on_the_command_line_are_those_of_the_registry():
    assert tuple(name for name in TASKS if name not in TINY) == command.TASKS
    assert tuple(OTHERS) == command.RIVALS
    assert tuple(SETS) == command.DATA


# Contenders


def test_a_grid_has_six_decades_around_the_default():
    assert contender_of("AdamW").values() == (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)
    assert contender_of("Prodigy:lr=2").values(0) == ()
    fine = contender_of("SGD").values(2)
    assert len(fine) == 13
    assert set(contender_of("SGD").values()) <= set(fine)
    assert contender_of("SHB").default == 0.1  # it must be given
    assert contender_of("SaLSA").values()[-1] == 0.5  # it is below 1


def test_options_are_read():
    found = contender_of("SHBPolyak : c = .5 : max_step=1e1:momentum=0").options
    assert found == {"c": 0.5, "max_step": 10.0, "momentum": 0}
    found = contender_of("HeavyStep:lower_bound=null:diagonal=None+cosine").options
    assert found == {"lower_bound": None, "diagonal": None}
    assert contender_of("Prodigy:decouple=false").options == {"lr": 1.0, "decouple": False}


REFUSED = [
    ("AdamX", ValueError, "no method is named 'AdamX'"),
    ("SGD+horizon", ValueError, "the only ending"),
    ("SHBPolyak:c=-1", ValueError, "c must be > 0"),
    ("SHBPolyak:d=1", TypeError, "no option 'd'|unexpected"),
    ("SGD:nesterof=true", TypeError, "'nesterof' is no option"),
    ("SGD:momentum=-2", ValueError, "Invalid momentum"),
    ("AdamW:lr=-1", ValueError, "lr must be > 0"),
    ("SPS:", ValueError, "after a colon comes an option, name=value"),
    ("SPS:c=1:c=2", ValueError, "each one once"),
    ("SPS:c", ValueError, "'c' must be followed by = and a number or a word"),
    ("SPS:c=1 2", ValueError, "'c' must be followed by = and a number or a word"),
    ({"seeds": 0}, ValueError, "seeds must be >= 1"),
    ({"per_decade": -1}, ValueError, "per_decade must be >= 0"),
    ({"steps": 0}, ValueError, "steps must be >= 1"),
    ({"device": "tpu"}, ValueError, "device must be one of"),
    ({"tasks": ["lost"]}, ValueError, "its data are at sea"),
    ({"tasks": ["cosine"], "methods": ["AdamW"]}, ValueError, "only methods of the registry"),
]


@pytest.mark.parametrize(("given", "error", "text"), REFUSED)
def test_wishes_are_checked_before_anything_runs(given, error, text, tiny):
    with pytest.raises(error, match=text):
        contender_of(given) if isinstance(given, str) else plans(**given)


# Runs


RUNS = {
    "AdamW": (torch.optim.AdamW, {"lr": 1e-3, "weight_decay": 0.0}, False),
    "SGD+cosine": (torch.optim.SGD, {"lr": 1e-3, "momentum": 0.9}, False),
    POLYAK: (SHBPolyak, {"scaling": "practical"}, True),
}
"""Optimizers, their options, and whether they take the loss."""


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_the_literal_loop(name, tiny):
    (make, options, ours), steps = RUNS[name], 60  # three of them are warm-up
    torch.manual_seed(0)
    work = work_of(nn.Linear(3, 1), 0, CPU)
    opt = make(work.parameters(), **options)
    for k in range(steps):
        work.next()
        if "cosine" in name:
            rising = min(1.0, (k + 1) / (0.05 * steps))
            now = 1e-3 * rising * 0.5 * (1 + math.cos(math.pi * k / steps))
            opt.param_groups[0]["lr"] = now
        opt.zero_grad()
        loss = work.loss()
        loss.backward()
        opt.step(**({"loss": loss} if ours else {}))
    found = done(name, None if ours else 1e-3, steps=steps)
    assert (found["loss"], found["metric"]) == tuple(work.measured())
    assert found["seconds"] > 0.0
    assert math.isnan(found["average_loss"])


def test_averages_and_searches_and_modes(tiny):
    averaged, start = done(POLYAK, average=True, task="normed"), done(START, task="normed", steps=0)
    assert math.isfinite(averaged["average_loss"])
    assert averaged["average_loss"] != averaged["loss"]
    for found in (
        done("SHBArmijo:scaling=practical", task="normed"),
        done("ScheduleFree", 0.1, task="normed", steps=40),
    ):
        assert found["loss"] < start["loss"]


def test_a_run_that_diverges_stops_and_counts_as_nothing(tiny):
    taken = []
    found = TaskRun("tiny", "SGD", 1e30, 0, 500).compute(taken.append)
    assert np.isnan([found["loss"][0], found["metric"][0]]).all()
    assert sum(taken) == LOOK_EVERY


def test_a_simulated_problem_is_the_simulation():
    simulation = pytest.importorskip("heavystep.lab.simulation")
    found = done(POLYAK, task="cosine", steps=50)
    direct = simulation.simulate(
        TASKS["cosine"].problem(), "SHBPolyak", seeds=[0], iterations=50, scaling="practical"
    )
    assert found["loss"] == direct.metrics["gap_last"][0, -1]


# The table


def numbers(**values):
    return {name: np.array([values.get(name, math.nan)]) for name in NUMBERS}


def test_lines_are_kept_sorted_and_a_cut_one_is_no_line(tmp_path, tiny):
    path = tmp_path / "deep" / "runs.csv"
    runs = [TaskRun("tiny", "SGD", value, 0, STEPS) for value in (0.1, 0.01, None)]
    table = RunTable(path, runs)
    for place, run in enumerate(runs):
        table.save(run.key(), run.text(), numbers(loss=float(place), seconds=1.0))
    lines = read(path.read_text())
    assert [line["value"] for line in lines] == ["", "0.01", "0.1"]
    assert tuple(lines[0]) == COLUMNS
    assert lines[1]["metric"] == ""
    path.write_bytes(path.read_bytes()[:-7])
    again = RunTable(path, runs)
    assert [again.load(run.key(), "") is None for run in runs] == [True, False, False]
    assert again.load(runs[1].key(), "")["loss"] == [1.0]
    again.save(runs[0].key(), "", numbers(loss=0.0, seconds=1.0))
    assert read(path.read_text()) == lines
    later = [TaskRun("tiny", "SGD:dampening=0.1", 0.1, 0, STEPS)]
    assert RunTable(path, later).load(later[0].key(), "") is None
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="is no table of runs"):
        RunTable(path, runs)


def test_keys_follow_all_that_decides(tiny, monkeypatch):
    given = ("tiny", "SGD", 0.1, 0, STEPS, "cpu")
    changes = ("normed", "AdamW", 0.2, 1, 9, "cuda")
    changed = [(*given[:at], other, *given[at + 1 :]) for at, other in enumerate(changes)]
    assert len({TaskRun(*each).key() for each in (given, *changed)}) == len(given) + 1
    assert TaskRun(*given).key() == TaskRun(*given, average=True).key()
    ours = [TaskRun("tiny", name, None, 0, STEPS) for name in (POLYAK, "SFPolyak", "SGD")]
    keys = [each.key() for each in ours]
    monkeypatch.setitem(FORMULAS, "polyak", 2)
    assert [each.key() == key for each, key in zip(ours, keys, strict=True)] == [False, True, True]
    monkeypatch.setitem(TASKS, "tiny", dataclasses.replace(TASKS["tiny"], version="2"))
    assert ours[2].key() != keys[2]


def outcome(monkeypatch, better=LOWER):
    """Two contenders, whose losses both seeds share, and metrics that are twice the losses."""
    task = dataclasses.replace(TINY["tiny"], metric=Metric("m", better, "points", 0.5))
    monkeypatch.setitem(TASKS, "tiny", task)
    losses = {"AdamW": {1e-4: 8.0, 1e-3: 4.0, 1e-2: math.nan}, "SGD": {1e-3: 6.0, 1e-2: 2.0}}
    (plan,), _ = plans(["tiny"], list(losses))
    results = {run.key(): numbers(loss=10.0, metric=20.0) for run in plan.start}
    for name, values in losses.items():
        for value, runs in plan.entries[name].items():
            loss = values.get(value, 9.0)
            made = numbers(loss=loss, metric=2.0 * loss, seconds=1.0)
            results |= dict.fromkeys((run.key() for run in runs), made)
    return plan, results


def test_regret_and_levels_by_hand(monkeypatch):
    plan, results = outcome(monkeypatch)
    found = outcome_of(plan, results)
    adam, sgd = found.cells
    assert found.start == (10.0, 20.0)
    assert found.best == (2.0, 4.0)
    # 10 at the start and 2 at best: 4 has 2 of 8 left.
    assert (adam.loss, adam.regret, adam.best_at, adam.best_regret) == (4.0, 25.0, "0.001", 25.0)
    assert (sgd.loss, sgd.regret, sgd.best_at, sgd.best_regret) == (6.0, 50.0, "0.01", 0.0)
    assert (adam.behind, sgd.behind) == ((8.0 - 4.0) / 0.5, (12.0 - 4.0) / 0.5)
    assert adam.failed == 2  # both seeds of the one that is NaN
    grid = [100.0 * (loss - 2.0) / 8.0 for loss in (8.0, 4.0, 10.0, 9.0, 9.0, 9.0, 9.0)]
    assert adam.sensitivity == pytest.approx(np.mean(grid))
    first, second = rows_of([found])
    assert (first.method, first.regret, first.worst_on, first.level) == ("AdamW", 25.0, "tiny", 0)
    assert (second.one, second.one_regret, second.tuned) == ("0.01", 0.0, 0.0)


def test_where_more_is_better(monkeypatch):
    found = outcome_of(*outcome(monkeypatch, HIGHER))
    # Nothing is above the start, which is what a run below it counts as.
    assert found.best[1] == 20.0
    assert [cell.behind for cell in found.cells] == [0.0, 0.0]


def test_what_is_missing_is_left_out(monkeypatch):
    plan, results = outcome(monkeypatch)
    del results[plan.entries["SGD"][1e-2][1].key()]
    assert 1e-2 not in plan.done(results).entries["SGD"]
    del results[plan.entries["SGD"][1e-3][1].key()]  # nothing set
    assert list(plan.done(results).entries) == ["AdamW"]
    del results[plan.start[0].key()]
    assert plan.done(results) is None


# Everything together


def made(tmp_path, tasks=("tiny", "normed"), methods=("AdamW", POLYAK), **options):
    return compare(tasks, methods, out=tmp_path, jobs=1, seeds=2, **options)


def test_a_comparison_writes_tables_pictures_and_a_page(tmp_path, tiny, monkeypatch):
    paths, folder = made(tmp_path).paths, tmp_path / "compare"
    assert {path.name for path in paths} == {
        "runs.csv", "tasks.csv", "methods.csv", "README.md", "overview.png", "curves.png",
    }  # fmt: skip
    page, kept = (folder / "README.md").read_text(), {path: path.read_bytes() for path in paths}
    for part in ("| AdamW |", f"| {POLYAK} |", "## tiny: a line", "heavystep compare"):
        assert part in page
    monkeypatch.setattr(TaskRun, "compute", lambda run, advance: pytest.fail("it is there"))
    made(tmp_path)
    assert {path: path.read_bytes() for path in paths} == kept
    # Fewer contenders leave the runs of the others where they are.
    made(tmp_path, methods=("AdamW",))
    assert (folder / "runs.csv").read_bytes() == kept[folder / "runs.csv"]


def test_what_is_stored_is_shown_and_nothing_is_run(tmp_path, tiny, monkeypatch):
    """A table over the tasks that all have done, and a section for each task with what is there."""
    made(tmp_path, methods=("AdamW", "HeavyStep"), per_decade=0)
    made(tmp_path, tasks=("tiny",), methods=("SGD",), per_decade=0)
    monkeypatch.setattr(TaskRun, "compute", lambda *given: pytest.fail("it was run"))
    lost = dataclasses.replace(TASKS["tiny"], missing=lambda: "its data are at sea")
    monkeypatch.setitem(TASKS, "tiny", lost)
    found = made(tmp_path, methods=("AdamW", "HeavyStep", "SGD", "Prodigy"), stored=True)
    assert [sorted(each.losses) for each in found.outcomes] == [
        ["AdamW", "HeavyStep", "SGD"], ["AdamW", "HeavyStep"]
    ]  # fmt: skip
    assert {row.method: row.tasks for row in found.rows} == {"AdamW": 1, "HeavyStep": 1, "SGD": 1}
    words = ["compare", "--stored", "--tasks", "tiny,normed", "--seeds", "2", "--per-decade", "0"]
    words += ["--methods", "AdamW,SGD", "--out", str(tmp_path)]
    assert "1 of 2 tasks: those that every method has done" in CliRunner().invoke(app, words).output


def test_a_run_that_fails_is_left_out(tmp_path, tiny, monkeypatch):
    real = TaskRun.compute

    def fails(run, advance):
        if (run.contender, run.value) in (("AdamW", 1e-3), ("SGD", 1.0)):
            raise RuntimeError("no")
        return real(run, advance)

    monkeypatch.setattr(TaskRun, "compute", fails)
    found = made(tmp_path, methods=("AdamW", "SGD"))
    assert found.failed
    assert [row.method for row in found.rows] == ["SGD"]
    assert 1.0 not in found.outcomes[0].losses["SGD"]


def test_the_command_fits_a_terminal(tmp_path, tiny):
    names = "AdamW,SGD:weight_decay=0.0005+cosine,SHBArmijo:scaling=practical"
    words = ["compare", "--quick", "--tasks", "tiny,normed,lost", "--methods", names, "--jobs", "1",
             "--out", str(tmp_path)]  # fmt: skip
    result = CliRunner().invoke(app, words, env={"COLUMNS": "100"})
    assert result.exit_code == 0, result.output
    for name in names.split(","):
        assert f"│ {name} " in result.output
    assert max(len(line) for line in result.output.splitlines() if "│" in line) <= 100
