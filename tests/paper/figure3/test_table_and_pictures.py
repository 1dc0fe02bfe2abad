"""The table and the pictures of Figure 3 are plain arithmetic."""

import csv
import io
import math

import numpy as np
import pytest

from heavystep.paper.appendix_e import METHODS
from heavystep.lab.figures.figure3_picture import pictures as figure3_pictures
from heavystep.paper.figure3.table import Row, figure3_table, final
from heavystep.paper.plot import styled
from heavystep.lab.training.trainer import EpochRow
from heavystep.lab.training.runs import Stored, Stretch
from tests.helpers.figure3_results import K, drawn, fill
from tests.helpers.histories import EPOCHS, rows, save, spec, store_of

STUDENT_2 = 0.95 * math.sqrt(2.0 / (4.0 * 0.975 * 0.025))
"""97.5% quantile of Student's distribution with 2 degrees of freedom, in closed form."""


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


@pytest.mark.parametrize(("seeds", "said"), [(1, "1 run"), (2, "2 runs")])
def test_few_seeds_have_no_band_and_a_missing_set_says_so(tmp_path, seeds, said):
    fill(tmp_path, ("cifar10",), seeds=seeds)
    figure, results = drawn(tmp_path)
    pictures = figure3_pictures(figure, results)
    axes = pictures["figure3"].axes
    assert [len(ax.get_lines()) for ax in axes] == [6, 6, 6, 6, 0, 0, 0, 0]
    assert not any(ax.collections for ax in axes)
    assert [text.get_text() for text in axes[4].texts] == ["no runs on\nCIFAR-100"]
    assert f"{said} of 20 epochs" in pictures["figure3"].get_suptitle()
    assert ("means" in pictures["figure3"].get_suptitle()) == (seeds > 1)
    assert "bands" not in pictures["figure3"].get_suptitle()
    with styled():
        for canvas in pictures.values():
            canvas.draw_without_rendering()


def test_an_unfinished_run_is_a_thin_line_and_no_part_of_the_mean(tmp_path):
    fill(tmp_path, ("cifar10",), seeds=1)
    before = figure3_pictures(*drawn(tmp_path))["figure3"].axes
    save(tmp_path, spec(seed=1), rows(7, loss=np.arange(7.0, 0.0, -1.0), test_accuracy=0.25))
    canvas = figure3_pictures(*drawn(tmp_path, note=[].append))["figure3"]
    assert canvas.get_suptitle().endswith("thin: unfinished runs")
    for place, ends in ((0, [7.0, 1.0]), (1, [25.0, 25.0])):
        plain, shown = before[place], canvas.axes[place]
        thin = [line for line in shown.get_lines() if line.get_label().startswith("_")]
        (line,) = thin
        np.testing.assert_array_equal(line.get_xdata(), K[:7])
        assert line.get_ydata()[[0, -1]].tolist() == ends
        rest = [each for each in shown.get_lines() if each is not line]
        for one, other in zip(plain.get_lines(), rest, strict=True):
            np.testing.assert_array_equal(one.get_ydata(), other.get_ydata())
            assert line.get_linewidth() < one.get_linewidth()
        assert plain.get_ylim() == shown.get_ylim()


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
