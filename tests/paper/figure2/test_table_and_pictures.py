"""The table and the pictures of Figure 2 are plain arithmetic."""

import csv
import io
import math
from dataclasses import replace

import numpy as np
import pytest

from heavystep.lab.data import LIBSVM as CATALOGUE
from heavystep.paper.appendix_e import FIXED
from heavystep.lab.figures.figure2 import figure2
from heavystep.lab.figures.figure2_picture import pictures as figure2_pictures
from heavystep.lab.figures.figure2 import Row, area, table, over_steps
from heavystep.lab.plot import mean_and_half_width
from heavystep.paper.plot import styled
from heavystep.records import Trajectories
from heavystep.simulation.watch import TRAINING_METRICS
from tests.helpers.figure2_results import ADAPTIVE, K, by_label, ideal, trajectory

STUDENT_4 = 2.7764451051977987
"""97.5% quantile of Student's distribution with 4 degrees of freedom, from tables."""


def test_interval_is_students():
    values = np.random.default_rng(1).normal(size=(5, 7))
    mean, half_width = mean_and_half_width(values)
    for column, centre, half in zip(values.T, mean, half_width, strict=True):
        plain = sum(column) / 5
        assert centre == pytest.approx(plain, rel=1e-13)
        variance = sum((x - plain) ** 2 for x in column) / 4
        assert half == pytest.approx(STUDENT_4 * math.sqrt(variance / 5), rel=1e-12)


def test_the_shares_of_steps_are_told(eight):
    figure = figure2()
    results = ideal(figure)
    ones = np.ones((5, len(K)))
    for name in CATALOGUE:
        key = by_label(figure, name)["SHB-PS"].key()
        results[key] = trajectory(np.ones(len(K)), capped=0.25 * ones, limited=0.5 * ones)
    assert "SHB-PS 25% (50%), SPS 0% (0%)" in table(figure, results).note


def test_the_table_is_plain_arithmetic(eight):
    figure = figure2()
    rng = np.random.default_rng(5)
    results = {
        key: trajectory(rng.uniform(0.5, 1.0, len(K)), **{
            name: rng.random((5, len(K))) for name in TRAINING_METRICS if name != "loss"
        })
        for key in ideal(figure)
    }  # fmt: skip
    table = table(figure, results)
    read = list(csv.DictReader(io.StringIO(table.csv)))
    assert [row["method"] for row in read[:8]] == [*ADAPTIVE, *FIXED]
    runs = by_label(figure, "ijcnn1")
    best = min(results[run.key()].metrics["loss"][:, -1].mean() for run in runs.values())
    for row in (row for row in read if row["data_set"] == "ijcnn1"):
        metrics = results[runs[row["method"]].key()].metrics
        last = metrics["loss"][:, -1]
        expected = {
            "final_loss": last.mean(),
            "half_width": STUDENT_4 * last.std(ddof=1) / math.sqrt(5),
            "ratio_to_best": last.mean() / best,
            "area": np.log10(metrics["loss"].mean(axis=0)).mean(),
            "at_cap": metrics["capped"].mean(),
            "held": metrics["limited"].mean(),
            "mean_step": metrics["step"].mean(),
            "trials": metrics["trials"][:, -1].mean() / 2000,
        }
        assert set(expected) == set(Row._fields) - {"data_set", "method"}
        for name, value in expected.items():
            assert float(row[name]) == pytest.approx(value, rel=1e-12), name
    assert len(table.markdown.splitlines()) == 2 + 64
    assert [len(line) for line in table.compact] == [9] * 9
    assert sum(cell.count("*") for line in table.compact[1:] for cell in line) == 8


def test_means_are_over_steps_not_records():
    result = Trajectories(np.array([100, 150]), (0,), {"loss": np.array([[0.1, 0.001]])})
    assert over_steps(result, np.array([1.0, 4.0])) == pytest.approx(2.0)
    assert area(result) == pytest.approx((2 * -1 + -3) / 3)


def test_the_picture_shows_means_and_intervals(eight):
    figure = figure2()
    results = ideal(figure)
    ax = figure2_pictures(figure, results)["figure2"].axes[4]
    curves = figure.panels[4].curves
    assert ax.get_yscale() == "log"
    for curve, line, band in zip(curves, ax.get_lines(), ax.collections, strict=True):
        losses = results[curve.run.key()].metrics["loss"]
        mean, half = losses.mean(axis=0), STUDENT_4 * losses.std(axis=0, ddof=1) / math.sqrt(5)
        np.testing.assert_array_equal(line.get_xdata(), K)
        np.testing.assert_allclose(line.get_ydata(), mean)
        corners = band.get_paths()[0].vertices
        for k, low, high in zip(K, mean - half, mean + half, strict=True):
            at = corners[corners[:, 0] == k, 1]
            assert (at.min(), at.max()) == pytest.approx((low, high), rel=1e-12)


def test_two_seeds_have_no_band_and_the_title_promises_none(eight):
    figure = figure2()
    two = {
        key: replace(
            result,
            seeds=result.seeds[:2],
            metrics={name: values[:2] for name, values in result.metrics.items()},
        )
        for key, result in ideal(figure).items()
    }
    canvas = figure2_pictures(figure, two)["figure2"]
    assert "bands" not in canvas.get_suptitle()
    assert not any(ax.collections for ax in canvas.axes)


def test_a_band_ends_above_zero(eight):
    figure = figure2()
    wide = trajectory(np.ones(len(K)))
    wide.metrics["loss"][:] = np.array([[1e-9], [1e-9], [1e-9], [1e-9], [1.0]])
    ax = figure2_pictures(figure, dict.fromkeys(ideal(figure), wide))["figure2"].axes[0]
    assert ax.collections[0].get_paths()[0].vertices[:, 1].min() > 0.0
    assert ax.get_ylim()[0] > 1e-3  # around the mean, not down to the end of the band


def test_the_second_picture_shows_steps_and_shares(eight):
    figure = figure2()
    shares = {"step": 0.3, "capped": 0.25, "limited": 0.6}
    full = {name: np.full((5, len(K)), value) for name, value in shares.items()}
    results = dict.fromkeys(ideal(figure), trajectory(np.ones(len(K)), **full))
    axes = figure2_pictures(figure, results)["figure2_steps"].axes
    assert len(axes) == 16
    assert [line.get_label() for line in axes[0].get_lines()] == ADAPTIVE
    np.testing.assert_allclose(axes[0].get_lines()[0].get_ydata(), 0.3)
    widths = [patch.get_width() for patch in axes[4].patches]
    np.testing.assert_allclose(widths, 4 * [25.0, 60.0, 15.0])


@pytest.mark.slow
@pytest.mark.parametrize("value", [np.nan, 0.0])
def test_nan_and_zero_can_be_drawn(value, eight):
    figure = figure2()
    results = dict.fromkeys(ideal(figure), trajectory(np.full(len(K), value)))
    with styled():
        for canvas in figure2_pictures(figure, results).values():
            canvas.draw_without_rendering()
