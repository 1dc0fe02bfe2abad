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
from heavystep.lab.figures.appendix_e import FAMILIES, FIXED
from heavystep.lab.figures.figure2 import Row, area, figure2, methods, over_steps, table
from heavystep.lab.figures.figure2 import claims as figure2_claims
from heavystep.lab.figures.figure2 import pictures as figure2_pictures
from heavystep.lab.plot import styled
from heavystep.lab.simulation.loop import TRAINING_METRICS
from heavystep.lab.simulation.sweep import ProblemSpec
from heavystep.problems.logistic import row_norms
from heavystep.records import Trajectories
from tests.helpers import tiny_libsvm
from tests.helpers.data_sets import changed, file_of
from tests.helpers.figure2_results import ADAPTIVE, K, by_label, ideal, trajectory


@pytest.fixture(scope="module")
def eight(tmp_path_factory):
    """All eight data sets, tiny."""
    with tiny_libsvm.folder(tmp_path_factory.mktemp("data"), list(CATALOGUE)) as folder:
        yield folder


def verdicts(figure, results):
    return {claim.id: claim.holds for claim in figure2_claims(figure, results)}


AT_THE_END = np.where(K[-1] == K, 1.0, 0.0)
HALF = list(CATALOGUE)[:4]
SPOILED = {
    "end": (HALF, "SHB-PS", 0.9e-3 + 0.4 * AT_THE_END, {"PS.lower", "mushrooms.PS"}),
    "area": (HALF, "SHB-ALS", 0.9 - 0.899 * AT_THE_END, {"ALS.faster"}),
    "factor": (["mushrooms"], "SPS", 4.9e-3, {"mushrooms.PS"}),
    "factor there": (["real-sim"], "SLS", 4.9e-3, {"real-sim.ALS"}),
    "sweep": (["w8a"], FIXED[1], 0.97e-3, {"w8a.SHB-PS", "w8a.SHB-ALS"}),
}
"""Data sets, method, its losses in place of the ideal ones, and the claims that must fail."""


@pytest.mark.parametrize("kind", SPOILED)
def test_claims_can_fail(kind, eight):
    """From tables on which all hold, each predicate turns false on numbers that break it."""
    figure = figure2()
    results = ideal(figure)
    before = verdicts(figure, results)
    assert len(before) == 4 + 4 + 16
    assert all(before.values())
    sets, method, losses, broken = SPOILED[kind]
    for name in sets:
        results[by_label(figure, name)[method].key()] = trajectory(losses * np.ones(len(K)))
    failed = {name for name, holds in verdicts(figure, results).items() if not holds}
    # Losses far above also miss the sweep.
    assert failed - {f"{name}.{method}" for name in sets} == broken


def test_most_is_more_than_half(eight):
    figure = figure2()
    results = ideal(figure)
    for name in HALF[:3]:
        results[by_label(figure, name)["SHB-PS"].key()] = trajectory(np.ones(len(K)))
    found = verdicts(figure, results)
    assert found["PS.faster"]
    assert found["PS.lower"]
    results[by_label(figure, HALF[3])["SHB-PS"].key()] = trajectory(np.ones(len(K)))
    found = verdicts(figure, results)
    assert not found["PS.faster"]
    assert not found["PS.lower"]


@pytest.mark.parametrize("value", [np.nan, 0.0])
def test_nan_and_zero_hold_nothing(value, eight):
    figure = figure2()
    results = {key: trajectory(np.full(len(K), value)) for key in ideal(figure)}
    claims = figure2_claims(figure, results)
    assert not any(claim.holds for claim in claims)
    json.dumps([claim.as_json() for claim in claims], allow_nan=False)
    assert all(math.isnan(row.ratio_to_best) for row in table(figure, results).rows)


def test_the_figure_is_appendix_es(eight):
    figure = figure2()
    assert figure.name == "figure2"
    assert [panel.title for panel in figure.panels] == [
        *2 * ["a9a", "Cod-RNA", "IJCNN1", "Mushrooms"],
        *2 * ["Phishing", "real-sim", "SVMguide1", "w8a"],
    ]
    assert [panel.id.split(".")[1] for panel in figure.panels] == 2 * [*4 * ["PS"], *4 * ["ALS"]]
    assert [curve.label for curve in figure.panels[0].curves] == ["SHB-PS", "SPS", *FIXED]
    assert [curve.label for curve in figure.panels[4].curves] == ["SHB-ALS", "SLS", *FIXED]
    runs = figure.runs().values()
    assert len(runs) == 64
    assert {(run.seeds, run.iterations, run.batch_size) for run in runs} == {(5, 20_000, 128)}
    grid = next(iter(runs)).grid()
    assert grid.tolist() == list(range(100, 20_001, 100))


def test_appendix_es_constants(eight):
    """rule, beta, c, gamma_max, kappa's scaling, growth and what else a method has."""
    runs = by_label(figure2(), "mushrooms")
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


def test_the_papers_cap_leaves_the_rules_no_choice():
    """On rows of unit length no rule asks for less than 1, but each for less than 100."""
    for cap, at_cap in ((1.0, True), (100.0, False)):
        known = methods(tiny_libsvm.ROWS, cap)
        for name in ADAPTIVE:
            least, _ = known[name].step_bounds(L=0.25, first=0, count=1)
            assert (least >= cap).all() == at_cap


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
    paper, companion = figure2(), figure2(max_step=100.0)
    assert companion.name == "figure2_max_step_100"
    one, other = by_label(paper, "w8a"), by_label(companion, "w8a")
    assert {name for name in one if one[name].key() != other[name].key()} == set(ADAPTIVE)
    assert {other[name].method["max_step"] for name in ADAPTIVE} == {100.0}
    with pytest.raises(ValueError, match=r"max_step \(gamma_max\) must be > 0 and finite, got -1"):
        figure2(max_step=-1.0)


def test_keys_depend_on_grid_batch_and_data(eight, tmp_path):
    run = by_label(figure2(), "mushrooms")["SHB-PS"]
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
        published = replace(CATALOGUE["mushrooms"], files=(file_of("libsvm/mushrooms", other),))
        with changed(mushrooms=published):
            assert run.key() not in keys


STUDENT_4 = 2.7764451051977987
"""97.5% quantile of Student's distribution with 4 degrees of freedom, from tables."""


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
    shown = table(figure, results)
    read = list(csv.DictReader(io.StringIO(shown.csv())))
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
    assert len(read) == 64
    assert [len(line) for line in shown.compact] == [9] * 9
    assert sum(cell.count("*") for line in shown.compact[1:] for cell in line) == 8


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


@pytest.mark.slow
@pytest.mark.parametrize("value", [np.nan, 0.0])
def test_nan_and_zero_can_be_drawn(value, eight):
    figure = figure2()
    results = dict.fromkeys(ideal(figure), trajectory(np.full(len(K), value)))
    with styled():
        for canvas in figure2_pictures(figure, results).values():
            canvas.draw_without_rendering()
