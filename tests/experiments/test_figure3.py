"""Figure 3: its runs as data, tables, claims that can fail, pictures, the commands."""

import csv
import io
import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from heavystep.cli import training_progress
from heavystep.cli.app import app
from heavystep.experiments import reproduce, trained
from heavystep.experiments.appendix_e import FIXED, METHODS
from heavystep.experiments.figure3 import PAPER, QUICK, figure3, methods
from heavystep.experiments.figure3_claims import figure3_claims
from heavystep.experiments.figure3_plot import figure3_pictures
from heavystep.experiments.figure3_table import Row, figure3_table, final
from heavystep.experiments.interval import mean_and_half_width
from heavystep.experiments.parquet import DamagedError
from heavystep.experiments.plot_style import styled
from heavystep.experiments.training_results import curves, missing
from heavystep.experiments.training_spec import Scale, parsed
from heavystep.experiments.training_store import Stored, Stretch
from heavystep.training.history import EpochRow
from histories import EPOCHS, TINY, rows, save, spec, store_of

STUDENT_2 = 0.95 * math.sqrt(2.0 / (4.0 * 0.975 * 0.025))
"""97.5% quantile of Student's distribution with 2 degrees of freedom, in closed form."""
K = np.arange(1, EPOCHS + 1)
LOSSES = {"SHB-PS": 0.1, "SPS": 0.2, "SHB-ALS": 0.15, "SLS": 0.12, **dict.fromkeys(FIXED, 0.3)}
SPEEDS = {"SHB-PS": 1.0, "SPS": 0.4}
NOISE = (0.95, 1.0, 1.05)
BOTH = ("cifar10", "cifar100")


def accuracy(speed):
    return 0.9 * (1.0 - np.exp(-speed * K))


def ideal(method):
    """A history of which every claim holds."""
    return {
        "loss": LOSSES[method] * (1.0 + 5.0 / K),
        "test_accuracy": accuracy(SPEEDS.get(method, 0.5)),
    }


def fill(out, data_sets=BOTH, seeds=3, scale=TINY, **other):
    """Keep runs; ``other`` has values in place of the ideal ones, by method."""
    for data_set in data_sets:
        for method in METHODS:
            for seed in range(seeds):
                values = ideal(method) | other.get(method, {})
                values["loss"] = values["loss"] * NOISE[seed]
                save(out, spec(data_set, method, seed, scale), rows(**values))


def drawn(out, **options):
    """The figure with what is there of it."""
    figure = figure3(**({"epochs": EPOCHS, "scale": TINY} | options))
    results = curves(figure.runs(), store_of(out), pytest.fail)
    return figure.only(results), results


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("ideal")
    fill(out)
    return out


def test_the_figure_is_appendix_es():
    figure = figure3()
    assert figure.name == "figure3"
    assert [panel.title for panel in figure.panels] == [
        f"{name}, {family} family"
        for name in ("CIFAR-10", "CIFAR-100")
        for family in ("PS", "PS", "ALS", "ALS")
    ]
    metrics = [{curve.metric for curve in panel.curves} for panel in figure.panels]
    assert metrics == 4 * [{"loss"}, {"test_accuracy"}]
    assert [curve.label for curve in figure.panels[1].curves] == ["SHB-PS", "SPS", *FIXED]
    assert [curve.label for curve in figure.panels[6].curves] == ["SHB-ALS", "SLS", *FIXED]
    runs = figure.runs().values()
    assert len(runs) == 16
    assert {(run.seeds, run.epochs, run.scale) for run in runs} == {(3, 200, Scale())}
    assert figure.headline() == "ResNet-18 on CIFAR-10 and CIFAR-100: 3 runs of 200 epochs"
    with pytest.raises(ValueError, match="data set must be one of 'cifar10', 'cifar100', got 'x'"):
        figure3(data_sets=("x",))


def test_methods_have_the_constants_of_appendix_e():
    search = {"c": 0.1, "decrease_factor": 0.9, "growth": 2.0, "lower_bound": 0.0, "max_step": 1.0}
    expected = {
        "SHB-PS": ("SHBPolyak", {"c": 1.0, "growth": 4.0, "max_step": 1.0, "momentum": 0.9}),
        "SPS": ("SPS", {"c": 0.1, "growth": 4.0, "max_step": 1.0}),
        "SHB-ALS": ("SHBArmijo", {**search, "momentum": 0.9}),
        "SLS": ("SLS", search),
    }
    for step in ("0.0001", "0.001", "0.01", "0.1"):
        expected[f"SHB {step}"] = ("SHB", {"lr": float(step), "momentum": 0.9})
    found = {name: (spec.optimizer, dict(spec.options)) for name, spec in methods().items()}
    assert found == expected


def test_a_run_is_known_by_its_text():
    run = spec("cifar100", "SLS", 2)
    assert parsed(run.text()) == run
    with pytest.raises(ValueError, match="of another protocol than 1"):
        parsed(run.text().replace('"protocol": 1', '"protocol": 2'))
    with pytest.raises(ValueError, match="not the specification of a training run"):
        parsed("{}")


def test_a_history_with_a_gap_is_damaged(tmp_path):
    save(tmp_path, spec(), [row for row in rows(5) if row.epoch != 3])
    with pytest.raises(DamagedError, match="does not have all epochs"):
        store_of(tmp_path).load(spec())


def test_runs_are_the_same_to_any_epoch():
    short, long = figure3(seeds=1, epochs=3), figure3(seeds=3, epochs=200)
    for one, other in zip(short.runs().values(), long.runs().values(), strict=True):
        assert one.each()[0].key() == other.each()[0].key()
    for other in (short, figure3(seeds=3, epochs=3)):
        assert not set(other.runs()) & set(long.runs())
    assert not set(long.runs()) & set(figure3(scale=QUICK).runs())


def test_a_curve_has_the_seeds_that_reach_its_last_epoch(tmp_path):
    """Longer ones are cut, shorter ones left out, and so is what is damaged."""
    for seed, epochs in enumerate((30, 5, 20, 20)):
        save(tmp_path, spec(seed=seed), rows(epochs, loss=seed + np.arange(epochs) / 100))
    path = store_of(tmp_path).path(spec(seed=3))
    path.write_bytes(path.read_bytes()[:-50])
    runs = figure3(seeds=4, epochs=20, data_sets=("cifar10",), scale=TINY).runs()
    notes = []
    (curve,) = curves(runs, store_of(tmp_path), notes.append).values()
    assert curve.seeds == (0, 2)
    np.testing.assert_array_equal(curve.k, K)
    np.testing.assert_allclose(curve.metrics["loss"], [[0], [2]] + np.arange(20) / 100)
    assert set(curve.metrics) == set(EpochRow._fields) - {"epoch"}
    assert len(notes) == 1
    assert path.name in notes[0]
    alike = [run for run in runs.values() if run.method.name == "SHB-PS"]
    assert missing(alike, store_of(tmp_path)) == (2, 15 + 20)


def test_one_seed_has_no_half_width():
    mean, half_width = mean_and_half_width(np.array([[1.0, 2.0]]))
    assert mean.tolist() == [1.0, 2.0]
    assert np.isnan(half_width).all()


SLOW = 0.9 * (1.0 - np.exp(-0.3 * K))
BROKEN = {
    "PS.faster": {"SHB-PS": {"loss": np.where(K > 17, 0.05, 1.9) + 0.0 * K}},
    "PS.earlier": {"SHB-PS": {"test_accuracy": SLOW}},
    "ALS.comparable": {"SHB-ALS": {"test_accuracy": accuracy(0.5) - 0.016}},
    "SHB-PS.fixed": {FIXED[2]: {"loss": 0.05 + 0.0 * K}, "SHB-ALS": {"loss": 0.04 + 0.0 * K},
                     "SLS": {"loss": 0.03 + 0.0 * K}},
    "SHB-ALS.fixed": {FIXED[0]: {"loss": np.where(K > 18, 0.13, 9.0)}},
    "ALS.lower_without": {"SLS": {"loss": np.where(K > 18, 0.5, 0.01)}},
}  # fmt: skip
"""For each claim histories for which it does not hold, and all others do."""


def verdicts(out, **options):
    return {claim.id: claim.holds for claim in figure3_claims(*drawn(out, **options))}


@pytest.mark.parametrize("claim", BROKEN)
def test_claims_can_fail(claim, made, tmp_path):
    before = verdicts(made)
    assert list(before) == [f"{name}.{each}" for name in BOTH for each in (
        "PS.faster", "PS.earlier", "ALS.comparable", "SHB-PS.fixed", "SHB-ALS.fixed",
        "ALS.lower_without")]  # fmt: skip
    assert all(before.values())
    fill(tmp_path, ("cifar100",), **BROKEN[claim])
    after = verdicts(tmp_path)
    assert {name for name, holds in after.items() if not holds} == {f"cifar100.{claim}"}


LIMITS = [
    ("PS.faster", {"SHB-PS": {"loss": np.where(K > 2, 0.1, 5.0)}}, True),  # 18 of 20 epochs
    ("PS.faster", {"SHB-PS": {"loss": np.where(K > 3, 0.1, 5.0)}}, False),  # 17
    ("ALS.comparable", {"SHB-ALS": {"test_accuracy": accuracy(0.5) + 0.014}}, True),
    ("ALS.comparable", {"SHB-ALS": {"test_accuracy": accuracy(0.5) + 0.016}}, False),
    ("SHB-ALS.fixed", {FIXED[0]: {"loss": ideal("SHB-ALS")["loss"]}}, True),  # as low is enough
    ("SHB-PS.fixed", {FIXED[0]: {"loss": np.nan * K}}, True),  # one that diverged is no rival
    ("ALS.lower_without", {"SLS": {"loss": ideal("SHB-ALS")["loss"]}}, False),
    ("PS.earlier", {"SHB-PS": {"test_accuracy": accuracy(0.4)}}, False),  # no later is not earlier
    # Earlier at 95%, later at 98%.
    ("PS.earlier", {"SHB-PS": {"test_accuracy": np.where(K < EPOCHS, 0.87, 0.9)}}, True),
]


@pytest.mark.parametrize(("claim", "other", "holds"), LIMITS)
def test_claims_at_their_limits(claim, other, holds, tmp_path):
    fill(tmp_path, ("cifar10",), **other)
    assert verdicts(tmp_path)[f"cifar10.{claim}"] == holds


def test_what_is_measured_is_plain_arithmetic(made):
    measured = {claim.id: claim.measured for claim in figure3_claims(*drawn(made))}
    assert measured["cifar10.PS.faster"]["share of epochs"] == 1.0
    gain = measured["cifar10.PS.faster"]["mean difference of log10 loss"]
    assert gain == pytest.approx(math.log10(0.5))
    earlier = measured["cifar10.PS.earlier"]
    reach = accuracy(0.4)[-1]
    assert earlier["accuracy that both reach"] == pytest.approx(reach)
    for share in (0.9, 0.95, 0.98):
        for method in ("SHB-PS", "SPS"):
            epoch = next(k for k in K if accuracy(SPEEDS[method])[k - 1] >= share * reach)
            assert earlier[f"{method} at {share:.0%}"] == epoch
    final = 0.15 * (2.0 + 5 / 19 + 5 / 20) / 2.0
    assert measured["cifar10.SHB-ALS.fixed"]["SHB-ALS"] == pytest.approx(final)


def test_a_data_set_without_all_methods_claims_nothing(made, tmp_path):
    fill(tmp_path)
    for seed in range(3):
        store_of(tmp_path).path(spec("cifar10", FIXED[1], seed)).unlink()
    assert {name.split(".")[0] for name in verdicts(tmp_path)} == {"cifar100"}


def test_nan_holds_nothing(tmp_path):
    nothing = {name: {"loss": np.nan * K, "test_accuracy": np.nan * K} for name in METHODS}
    fill(tmp_path, ("cifar10",), seeds=2, **nothing)
    figure, results = drawn(tmp_path)
    claims = figure3_claims(figure, results)
    assert len(claims) == 6
    assert not any(claim.holds for claim in claims)
    json.dumps([claim.as_json() for claim in claims], allow_nan=False)
    with styled():
        for canvas in figure3_pictures(figure, results).values():
            canvas.draw_without_rendering()


@pytest.mark.parametrize(("epochs", "last"), [(1, 1), (9, 1), (19, 1), (20, 2), (200, 20)])
def test_final_numbers_are_those_of_the_last_tenth(epochs, last):
    values = np.arange(2.0 * epochs).reshape(2, epochs) ** 2
    np.testing.assert_allclose(final(values), values[:, epochs - last :].mean(axis=1))


def test_the_table_is_plain_arithmetic(tmp_path):
    rng = np.random.default_rng(3)
    numbers = {name: rng.random((3, EPOCHS)) for name in EpochRow._fields[1:]}
    numbers["refused"] = rng.integers(0, 5, (3, EPOCHS))
    for method in METHODS:
        for seed in range(3):
            values = {name: of_seeds[seed] for name, of_seeds in numbers.items()}
            save(tmp_path, spec("cifar10", method, seed), rows(**values))
    table = figure3_table(*drawn(tmp_path, data_sets=("cifar10",)))
    read = list(csv.DictReader(io.StringIO(table.csv)))
    assert [row["method"] for row in read] == list(METHODS)
    loss, right = (numbers[name][:, -2:].mean(axis=1) for name in ("loss", "test_accuracy"))
    expected = {
        "seeds": 3,
        "epochs": EPOCHS,
        "final_loss": loss.mean(),
        "loss_half_width": STUDENT_2 * loss.std(ddof=1) / math.sqrt(3),
        "final_accuracy": right.mean(),
        "accuracy_half_width": STUDENT_2 * right.std(ddof=1) / math.sqrt(3),
        "best_accuracy": numbers["test_accuracy"].mean(axis=0).max(),
        "mean_step": numbers["step"].mean(),
        "at_cap": numbers["capped"].mean(),
        "trials": numbers["trials"].mean(),
        "refused": numbers["refused"].sum() / 3,
        "seconds": numbers["seconds"].mean(),
    }
    assert set(expected) == set(Row._fields) - {"data_set", "method"}
    for name, value in expected.items():
        assert float(read[2][name]) == pytest.approx(value, rel=1e-12), name
    assert len(table.markdown.splitlines()) == 2 + 8
    assert {len(line) for line in table.compact} == {11}


def test_the_table_says_where_epochs_were_made(tmp_path):
    """Only those that were used: a run that went on later counts to its last epoch here."""
    parts = tuple(
        Stretch(*ends, device, "bfloat16", "torch 2", 9.0, device == "another")
        for ends, device in (((1, 15), "one GPU"), ((16, 25), "another"), ((26, 40), "a third"))
    )
    store_of(tmp_path).save(spec(), Stored(rows(40), parts))
    _, results = drawn(tmp_path)
    note = figure3_table(*drawn(tmp_path)).note
    assert note == (
        "made on one GPU, bfloat16, torch 2: 15 epochs; "
        "another, bfloat16, torch 2, compiled: 5 epochs"
    )
    assert "±" not in "".join(figure3_table(*drawn(tmp_path)).compact[1])
    assert len(results) == 1


def test_the_picture_shows_means_and_intervals(made):
    figure, results = drawn(made)
    axes = figure3_pictures(figure, results)["figure3"].axes
    for place, factor, scale in ((2, 1.0, "log"), (5, 100.0, "linear")):
        ax, curves = axes[place], figure.panels[place].curves
        assert ax.get_yscale() == scale
        for curve, line, band in zip(curves, ax.get_lines(), ax.collections, strict=True):
            values = factor * results[curve.run.key()].metrics[curve.metric]
            half = STUDENT_2 * values.std(axis=0, ddof=1) / math.sqrt(3)
            np.testing.assert_array_equal(line.get_xdata(), K)
            np.testing.assert_allclose(line.get_ydata(), values.mean(axis=0))
            corners = band.get_paths()[0].vertices
            at = corners[corners[:, 0] == K[-1], 1]
            assert at.max() == pytest.approx(values.mean(axis=0)[-1] + half[-1])


def test_one_seed_has_no_band_and_a_missing_set_says_so(tmp_path):
    fill(tmp_path, ("cifar10",), seeds=1)
    figure, results = drawn(tmp_path)
    pictures = figure3_pictures(figure, results)
    axes = pictures["figure3"].axes
    assert [len(ax.get_lines()) for ax in axes] == [6, 6, 6, 6, 0, 0, 0, 0]
    assert not any(ax.collections for ax in axes)
    assert [text.get_text() for text in axes[4].texts] == ["no runs on\nCIFAR-100"]
    assert "1 run of 20 epochs" in pictures["figure3"].get_suptitle()
    assert "bands" not in pictures["figure3"].get_suptitle()
    with styled():
        for canvas in pictures.values():
            canvas.draw_without_rendering()


def test_the_second_picture_shows_steps_and_trials(tmp_path):
    values = {name: {"step": 0.25, "capped": 0.5, "trials": 3.0} for name in METHODS}
    fill(tmp_path, ("cifar100",), seeds=2, **values)
    axes = figure3_pictures(*drawn(tmp_path, data_sets=("cifar100",)))["figure3_steps"].axes
    shown = [{line.get_label(): line.get_ydata()[0] for line in ax.get_lines()} for ax in axes]
    adaptive = ["SHB-PS", "SPS", "SHB-ALS", "SLS"]
    assert shown == [
        dict.fromkeys(adaptive, 0.25),
        dict.fromkeys(adaptive, 50.0),
        dict.fromkeys(("SHB-ALS", "SLS"), 3.0),
    ]
    assert axes[0].get_yscale() == "log"


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
    (["figure3", "--methods", "SPS", "--methods", "Adam"], "methods must be one of 'SHB-PS', 'SPS', "),
    (["figure3", "--seed", "-1"], "seed must be >= 0, got -1"),
    (["figure3", "--seed", "0", "--seeds", "1"], "--seed and --seeds exclude each other"),
    (["figure1", "--seed", "0"], "figure1 has no --seed: it is for figure3 only"),
    (["figure3", "--no-train", "--no-compile"], "--no-train leaves nothing to do for --no-compile"),
    (["figure3", "--no-train", "--force"], "--no-train leaves nothing to do for --force"),
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
    others = [
        part for name in METHODS if name not in ("SLS", FIXED[1]) for part in ("--methods", name)
    ]
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


def test_a_log_has_few_lines(monkeypatch, capsys):
    now = iter(np.arange(0.0, 1000.0, 4.0))
    monkeypatch.setattr(training_progress.time, "monotonic", lambda: float(next(now)))
    with training_progress.training_progress() as progress:
        progress.start(3, 1, 12)
        progress.begin("cifar10 SPS seed 0")
        for row in rows(12, loss=0.25, test_accuracy=0.625, step=0.125, trials=1.5):
            progress.advance(0.5)
            progress.advance(0.5)
            progress.epoch(row, 1000)
        progress.finish()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "1 of 3 runs are there already"
    assert 3 <= len(lines) <= 7
    assert "epoch 12: loss 0.25, test 62.5%, step 0.125, 1.5 trials, 500 images/s" in lines[-1]
    assert lines[-1].startswith("cifar10 SPS seed 0: complete")
    assert lines[-1].endswith("; 2/3 runs, 0:00:00 left")


def test_a_terminal_has_a_bar(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    with training_progress.training_progress() as progress:
        assert isinstance(progress, training_progress.TrainingBar)
        progress.start(1, 0, 1)
        progress.begin("cifar10 SPS seed 0")
        progress.advance(1.0)
        progress.epoch(rows(1, loss=0.25)[0], 1000)
        progress.finish()
    shown = capsys.readouterr().err
    for part in ("cifar10 SPS seed 0", "100%", "1/1 runs", "loss 0.25"):
        assert part in shown
