"""Figure 3 is that of Appendix E; its claims can fail, its table and pictures are arithmetic."""

import csv
import io
import json
import math

import numpy as np
import pytest

from heavystep.lab.figures.appendix_e import FIXED, METHODS
from heavystep.lab.figures.figure3 import SMALL, claims, figures, pictures, table
from heavystep.lab.plot import styled
from heavystep.lab.training.epochs import EpochRow
from heavystep.lab.training.runs import Scale, curves
from tests.helpers.figure3_results import (
    BOTH,
    BROKEN,
    EPOCHS,
    SPEEDS,
    TINY,
    K,
    accuracy,
    drawn,
    fill,
    folder_of,
    ideal,
    rows,
    save,
    spec,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("ideal")
    fill(out)
    return out


def path_of(out, run):
    return folder_of(out) / f"{run.key()}.parquet"


def draw(canvases):
    with styled():
        for canvas in canvases.values():
            canvas.draw_without_rendering()


def verdicts(out, **options):
    return {claim.id: claim.holds for claim in claims(*drawn(out, **options))}


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
    measured = {claim.id: claim.measured for claim in claims(*drawn(made))}
    gain = {"share of epochs": 1.0, "mean difference of log10 loss": math.log10(0.5)}
    assert measured["cifar10.PS.faster"] == pytest.approx(gain)
    earlier, reach = measured["cifar10.PS.earlier"], accuracy(0.4)[-1]
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
        path_of(tmp_path, spec("cifar10", FIXED[1], seed)).unlink()
    assert {name.split(".")[0] for name in verdicts(tmp_path)} == {"cifar100"}


def test_nan_holds_nothing(tmp_path):
    nothing = {name: {"loss": np.nan * K, "test_accuracy": np.nan * K} for name in METHODS}
    fill(tmp_path, ("cifar10",), seeds=2, **nothing)
    figure, results = drawn(tmp_path)
    found = claims(figure, results)
    assert [claim.holds for claim in found] == [False] * 6
    json.dumps([claim.as_json() for claim in found], allow_nan=False)
    draw(pictures(figure, results))


def test_the_figure_is_appendix_es():
    (figure,) = figures()
    assert [panel.title for panel in figure.panels] == [
        f"{name}, {family} family"
        for name in ("CIFAR-10", "CIFAR-100")
        for family in ("PS", "PS", "ALS", "ALS")
    ]
    metrics = [{curve.metric for curve in panel.curves} for panel in figure.panels]
    assert metrics == 4 * [{"loss"}, {"test_accuracy"}]
    assert [curve.label for curve in figure.panels[1].curves] == ["SHB-PS", "SPS", *FIXED]
    assert [curve.label for curve in figure.panels[6].curves] == ["SHB-ALS", "SLS", *FIXED]
    runs = figure.runs()
    assert len(runs) == 16
    assert {(run.seeds, run.epochs, run.scale) for run in runs} == {((0, 1, 2), 200, Scale())}
    assert figure.title == "ResNet-18 on CIFAR-10 and CIFAR-100"
    with pytest.raises(ValueError, match="datasets must be one of 'cifar10', 'cifar100', got 'x'"):
        figures(datasets="x")


def test_runs_are_the_same_to_any_epoch():
    short, long = figures(seeds=1, epochs=3)[0], figures(seeds=3, epochs=200)[0]
    for one, other in zip(short.runs(), long.runs(), strict=True):
        assert one.each()[0].key() == other.each()[0].key()
    for other in (short, figures(seeds=3, epochs=3)[0]):
        assert not set(other.runs()) & set(long.runs())
    assert not set(long.runs()) & set(figures(scale=SMALL)[0].runs())


def test_a_curve_has_the_seeds_that_reach_its_last_epoch(tmp_path):
    """Longer ones are cut, shorter ones kept apart, and what is damaged is left out."""
    for seed, epochs in enumerate((30, 5, 20, 20)):
        save(tmp_path, spec(seed=seed), rows(epochs, loss=seed + np.arange(epochs) / 100))
    path = path_of(tmp_path, spec(seed=3))
    path.write_bytes(path.read_bytes()[:-50])
    (figure,) = figures(seeds=4, epochs=20, datasets="cifar10", scale=TINY)
    notes = []
    (curve,) = curves(figure.runs(), folder_of(tmp_path), notes.append).values()
    assert curve.seeds == (0, 2)
    np.testing.assert_allclose(curve.metrics["loss"], [[0], [2]] + np.arange(20) / 100)
    unfinished, damaged = notes
    assert unfinished == "cifar10 SHB-PS seed 1 has 5 of 20 epochs and does not count"
    assert path.name in damaged
    assert list(curve.unfinished) == [1]
    np.testing.assert_allclose(curve.unfinished[1]["loss"], 1 + np.arange(5) / 100)


STUDENT_2 = 0.95 * math.sqrt(2.0 / (4.0 * 0.975 * 0.025))
"""97.5% quantile of Student's distribution with 2 degrees of freedom, in closed form."""


def test_the_table_is_plain_arithmetic(tmp_path):
    rng = np.random.default_rng(3)
    numbers = {name: rng.random((3, EPOCHS)) for name in EpochRow._fields[1:]}
    for method in METHODS:
        for seed in range(3):
            values = {name: of_seeds[seed] for name, of_seeds in numbers.items()}
            save(tmp_path, spec("cifar10", method, seed), rows(**values))
    shown = table(*drawn(tmp_path, datasets="cifar10"))
    read = list(csv.DictReader(io.StringIO(shown.csv())))
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
    assert set(expected) == set(read[2]) - {"data_set", "method"}
    for name, value in expected.items():
        assert float(read[2][name]) == pytest.approx(value, rel=1e-12), name
    assert len(read) == 8
    assert {len(line) for line in shown.compact} == {11}


@pytest.mark.parametrize(("seeds", "said"), [(1, "1 run"), (2, "2 runs")])
def test_few_seeds_have_no_band_and_a_missing_set_says_so(tmp_path, seeds, said):
    fill(tmp_path, ("cifar10",), seeds=seeds)
    figure, results = drawn(tmp_path)
    shown = pictures(figure, results)
    title, axes = shown["figure3"].get_suptitle(), shown["figure3"].axes
    assert [len(ax.get_lines()) for ax in axes] == [6, 6, 6, 6, 0, 0, 0, 0]
    assert not any(ax.collections for ax in axes)
    assert [text.get_text() for text in axes[4].texts] == ["no runs on\nCIFAR-100"]
    assert f"{said} of 20 epochs" in title
    assert ("means" in title) == (seeds > 1)
    assert "bands" not in title
    draw(shown)


def test_an_unfinished_run_is_a_thin_line_and_no_part_of_the_mean(tmp_path):
    fill(tmp_path, ("cifar10",), seeds=1)
    before = pictures(*drawn(tmp_path))["figure3"].axes
    save(tmp_path, spec(seed=1), rows(7, loss=np.arange(7.0, 0.0, -1.0), test_accuracy=0.25))
    canvas = pictures(*drawn(tmp_path, note=[].append))["figure3"]
    assert canvas.get_suptitle().endswith("thin: unfinished runs")
    for place, ends in ((0, [7.0, 1.0]), (1, [25.0, 25.0])):
        plain, shown = before[place], canvas.axes[place]
        (thin,) = [line for line in shown.get_lines() if line.get_label().startswith("_")]
        np.testing.assert_array_equal(thin.get_xdata(), K[:7])
        assert thin.get_ydata()[[0, -1]].tolist() == ends
        rest = [each for each in shown.get_lines() if each is not thin]
        for one, other in zip(plain.get_lines(), rest, strict=True):
            np.testing.assert_array_equal(one.get_ydata(), other.get_ydata())
            assert thin.get_linewidth() < one.get_linewidth()
        assert plain.get_ylim() == shown.get_ylim()


def test_the_second_picture_shows_steps_and_trials(tmp_path):
    values = {name: {"step": 0.25, "capped": 0.5, "trials": 3.0} for name in METHODS}
    fill(tmp_path, ("cifar100",), seeds=2, **values)
    axes = pictures(*drawn(tmp_path, datasets="cifar100"))["figure3_steps"].axes
    shown = [{line.get_label(): line.get_ydata()[0] for line in ax.get_lines()} for ax in axes]
    adaptive = ["SHB-PS", "SPS", "SHB-ALS", "SLS"]
    assert shown == [
        dict.fromkeys(adaptive, 0.25),
        dict.fromkeys(adaptive, 50.0),
        dict.fromkeys(("SHB-ALS", "SLS"), 3.0),
    ]
    assert axes[0].get_yscale() == "log"
