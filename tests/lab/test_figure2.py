"""Figure 2 is that of Appendix E; its claims can fail, its table and pictures are arithmetic."""

import bz2
import csv
import io
import json
import math
from dataclasses import replace

import numpy as np
import pytest

from heavystep.lab.data import LIBSVM as CATALOGUE
from heavystep.lab.figures.appendix_e import ADAPTIVE, FAMILIES, FIXED
from heavystep.lab.figures.figure2 import claims, figures, pictures, table
from heavystep.lab.plot import styled
from heavystep.lab.simulation.loop import TRAINING_METRICS
from heavystep.lab.simulation.sweep import ProblemSpec
from heavystep.problems.logistic import row_norms
from heavystep.records import Trajectories
from tests.helpers import tiny_libsvm
from tests.helpers.data_sets import changed, file_of

K = np.append(np.arange(100, 2000, 100), 1950)  # a record may stand for fewer steps
SHARE = np.diff(K, prepend=0) / K[-1]
LEVELS = {
    "SHB-PS": 1e-3, "SPS": 1e-2, "SHB-ALS": 1e-3, "SLS": 1e-2, **dict.fromkeys(FIXED, 2e-2),
}  # fmt: skip


@pytest.fixture(scope="module")
def eight(tmp_path_factory):
    """All eight data sets, tiny."""
    with tiny_libsvm.folder(tmp_path_factory.mktemp("data"), list(CATALOGUE)) as folder:
        yield folder


@pytest.fixture
def figure(eight):
    return figures()[0]


def by_label(figure, data_set):
    """The runs on one data set."""
    panels = [panel for panel in figure.panels if panel.name == data_set]
    return {curve.label: curve.run for panel in panels for curve in panel.curves}


def trajectory(loss, **others):
    """Five seeds around a curve of losses."""
    loss = loss * np.linspace(0.9, 1.1, 5)[:, None]
    metrics = {name: np.zeros_like(loss) for name in TRAINING_METRICS}
    return Trajectories(K, tuple(range(5)), {**metrics, "loss": loss, **others})


def ideal(figure):
    """Tables on which every claim holds."""
    return {
        curve.run: trajectory(LEVELS[curve.label] * (1.0 + 50.0 / K))
        for panel in figure.panels
        for curve in panel.curves
    }


def holding(figure, results):
    return {claim.id for claim in claims(figure, results) if claim.holds}


AT_THE_END = np.where(K[-1] == K, 1.0, 0.0)
HALF = list(CATALOGUE)[:4]
SPOILED = {
    "end": (HALF, "SHB-PS", 0.9e-3 + 0.4 * AT_THE_END, {"PS.lower", "mushrooms.PS"}),
    "area": (HALF, "SHB-ALS", 0.9 - 0.899 * AT_THE_END, {"ALS.faster"}),
    "factor": (["mushrooms"], "SPS", 4.9e-3, {"mushrooms.PS"}),
    "factor there": (["real-sim"], "SLS", 4.9e-3, {"real-sim.ALS"}),
    "sweep": (["w8a"], FIXED[1], 0.97e-3, {"w8a.SHB-PS", "w8a.SHB-ALS"}),
    # Most is more than half.
    "three of eight": (HALF[:3], "SHB-PS", 1.0, set()),
    "four of eight": (HALF, "SHB-PS", 1.0, {"PS.faster", "PS.lower", "mushrooms.PS"}),
}
"""Data sets, method, its losses in place of the ideal ones, and the claims that must fail."""


@pytest.mark.parametrize("kind", SPOILED)
def test_claims_can_fail(kind, figure):
    """From tables on which all hold, each predicate turns false on numbers that break it."""
    results = ideal(figure)
    before = holding(figure, results)
    assert len(before) == 4 + 4 + 16 == len(claims(figure, results))
    sets, method, losses, broken = SPOILED[kind]
    for name in sets:
        results[by_label(figure, name)[method]] = trajectory(losses * np.ones(len(K)))
    failed = before - holding(figure, results)
    # Losses far above also miss the sweep.
    assert failed - {f"{name}.{method}" for name in sets} == broken


@pytest.mark.parametrize("value", [np.nan, 0.0])
def test_nan_and_zero_hold_nothing_and_can_be_drawn(value, figure):
    results = dict.fromkeys(ideal(figure), trajectory(np.full(len(K), value)))
    found = claims(figure, results)
    assert not any(claim.holds for claim in found)
    json.dumps([claim.as_json() for claim in found], allow_nan=False)
    assert all(math.isnan(row["ratio_to_best"]) for row in table(figure, results).rows)
    with styled():
        pictures(figure, results)["figure2"].draw_without_rendering()


def test_the_figure_is_appendix_es(figure):
    assert figure.name == "figure2"
    assert [panel.title for panel in figure.panels] == [
        *2 * ["a9a", "Cod-RNA", "IJCNN1", "Mushrooms"],
        *2 * ["Phishing", "real-sim", "SVMguide1", "w8a"],
    ]
    for place, panel in enumerate(figure.panels):
        pair = FAMILIES["PS" if place % 8 < 4 else "ALS"]
        assert [curve.label for curve in panel.curves] == [*pair, *FIXED]
    runs = figure.runs()
    assert len(runs) == 64
    assert {(run.seeds, run.iterations, run.batch_size) for run in runs} == {(5, 20_000, 128)}
    assert runs[0].grid().tolist() == list(range(100, 20_001, 100))


def test_appendix_es_constants(figure):
    """rule, beta, c, gamma_max, kappa's scaling, growth and what else a method has."""
    runs = by_label(figure, "mushrooms")
    names = ("momentum", "c", "max_step", "scaling", "growth")
    found = {
        name: (run.method.rule.name, *(run.method[option] for option in names))
        for name, run in runs.items()
        if name in ADAPTIVE
    }
    assert found == {
        "SHB-PS": ("polyak", 0.9, 1.0, 1.0, "practical", 4.0),
        "SPS": ("polyak", 0.0, 0.1, 1.0, "plain", 4.0),
        "SHB-ALS": ("armijo", 0.9, 0.1, 1.0, "practical", 2.0),
        "SLS": ("armijo", 0.0, 0.1, 1.0, "plain", 2.0),
    }
    assert {runs[name].method["decrease_factor"] for name in FAMILIES["ALS"]} == {0.9}
    assert {runs[name].method["steps_per_epoch"] for name in ADAPTIVE} == {2}  # ceil(150 / 128)
    assert {runs[name].method["lr"] for name in ADAPTIVE} == {1.0}
    fixed = [runs[name].method for name in FIXED]
    assert [method["lr"] for method in fixed] == [1e-4, 1e-3, 1e-2, 1e-1]
    assert {(method.rule.name, method["momentum"]) for method in fixed} == {("fixed", 0.9)}


def test_rows_have_unit_length_and_the_larger_label_is_positive(eight):
    problem = ProblemSpec("libsvm", "mushrooms").build()
    norms = row_norms(problem.rows)
    assert norms[7] == 0.0
    np.testing.assert_allclose(np.delete(norms, 7), 1.0, rtol=1e-14)
    labels = [line[0] for line in (eight / "mushrooms").read_text().splitlines()]
    np.testing.assert_array_equal(problem.y, np.where(np.array(labels) == "2", 1.0, -1.0))
    assert problem.f_star[7] == math.log(2.0)
    assert problem.f_star.sum() == math.log(2.0)
    assert not problem.l2.any()


def test_the_largest_step_changes_the_adaptive_methods_only(eight):
    paper, companion = figures()
    assert companion.name == "figure2_max_step_100"
    one, other = by_label(paper, "w8a"), by_label(companion, "w8a")
    assert {name for name in one if one[name].key() != other[name].key()} == set(ADAPTIVE)
    assert {other[name].method["max_step"] for name in ADAPTIVE} == {100.0}
    with pytest.raises(ValueError, match=r"max_step \(gamma_max\) must be > 0 and finite, got -1"):
        figures(max_step=-1.0)


def test_keys_depend_on_grid_batch_and_data(eight, figure, tmp_path):
    run = by_label(figure, "mushrooms")["SHB-PS"]
    others = [replace(run, batch_size=64), replace(run, every=50), replace(run, every=None)]
    keys = {run.key(), *(each.key() for each in others)}
    assert len(keys) == 4
    with tiny_libsvm.folder(tmp_path, []) as folder:
        text = (eight / "mushrooms").read_bytes()
        (folder / "mushrooms.bz2").write_bytes(bz2.compress(text))
        assert run.key() in keys  # the same data elsewhere, packed
        last = text.rindex(b"1.0")
        other = text[:last] + b"1.1" + text[last + 3 :]
        (folder / "mushrooms").write_bytes(other)
        published = replace(CATALOGUE["mushrooms"], files=file_of("libsvm/mushrooms", other))
        with changed(mushrooms=published):
            assert run.key() not in keys


STUDENT_4 = 2.7764451051977987
"""97.5% quantile of Student's distribution with 4 degrees of freedom, from tables."""


def test_the_table_is_plain_arithmetic(figure):
    rng = np.random.default_rng(5)
    results = {
        key: trajectory(rng.uniform(0.5, 1.0, len(K)), **{
            name: rng.random((5, len(K))) for name in TRAINING_METRICS if name != "loss"
        })
        for key in ideal(figure)
    }  # fmt: skip
    shown = table(figure, results)
    read = list(csv.DictReader(io.StringIO(shown.csv())))
    assert [row["method"] for row in read] == 8 * [*ADAPTIVE, *FIXED]
    runs = by_label(figure, "ijcnn1")
    best = min(results[run].metrics["loss"][:, -1].mean() for run in runs.values())
    for row in (row for row in read if row["data_set"] == "ijcnn1"):
        metrics = results[runs[row["method"]]].metrics
        last = metrics["loss"][:, -1]
        expected = {
            "final_loss": last.mean(),
            "half_width": STUDENT_4 * last.std(ddof=1) / math.sqrt(5),
            "ratio_to_best": last.mean() / best,
            "area": np.log10(metrics["loss"].mean(axis=0)) @ SHARE,
            "at_cap": metrics["capped"].mean(axis=0) @ SHARE,
            "held": metrics["limited"].mean(axis=0) @ SHARE,
            "mean_step": metrics["step"].mean(axis=0) @ SHARE,
            "trials": metrics["trials"][:, -1].mean() / 1950,
        }
        assert set(expected) == set(row) - {"data_set", "method"}
        for name, value in expected.items():
            assert float(row[name]) == pytest.approx(value, rel=1e-12), name
    assert [len(line) for line in shown.compact] == [9] * 9
    assert sum(cell.count("*") for line in shown.compact[1:] for cell in line) == 8
    for place, name in enumerate(ADAPTIVE):
        cap, held = (np.mean([r[n] for r in shown.rows[place::8]]) for n in ("at_cap", "held"))
        assert f"{name} {cap:.0%} ({held:.0%})" in shown.note


def test_the_picture_shows_means_and_intervals(figure):
    results, curves = ideal(figure), figure.panels[4].curves
    ax = pictures(figure, results)["figure2"].axes[4]
    assert ax.get_yscale() == "log"
    for curve, line, band in zip(curves, ax.get_lines(), ax.collections, strict=True):
        losses = results[curve.run].metrics["loss"]
        mean, half = losses.mean(axis=0), STUDENT_4 * losses.std(axis=0, ddof=1) / math.sqrt(5)
        np.testing.assert_array_equal(line.get_xdata(), K)
        np.testing.assert_allclose(line.get_ydata(), mean)
        corners = band.get_paths()[0].vertices
        for k, low, high in zip(K, mean - half, mean + half, strict=True):
            at = corners[corners[:, 0] == k, 1]
            assert (at.min(), at.max()) == pytest.approx((low, high), rel=1e-12)
