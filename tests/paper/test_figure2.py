"""Figure 2: its runs as data, keys, tables, claims that can fail, pictures, the commands."""

import bz2
import csv
import hashlib
import io
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from heavystep.cli.app import app
from heavystep.data.catalogue import CATALOGUE
from heavystep.paper import reproduce
from heavystep.paper.appendix_e import FAMILIES, FIXED
from heavystep.paper.figure2.claims import figure2_claims
from heavystep.paper.figure2.definition import figure2, methods
from heavystep.paper.figure2.plot import figure2_pictures
from heavystep.paper.figure2.table import Row, area, figure2_table, over_steps, rows_of
from heavystep.paper.interval import mean_and_half_width
from heavystep.paper.plot import styled
from heavystep.records import Trajectories
from heavystep.simulation.watch import TRAINING_METRICS
from heavystep.sweeps.specification import ProblemSpec, RunSpec
from tests.helpers import tiny_libsvm

STUDENT_4 = 2.7764451051977987
"""97.5% quantile of Student's distribution with 4 degrees of freedom, from tables."""
ADAPTIVE = [name for pair in FAMILIES.values() for name in pair]
SMALL = ["--seeds", "2", "--iterations", "1000"]


@pytest.fixture(scope="module")
def eight(tmp_path_factory):
    """All eight data sets, tiny."""
    with tiny_libsvm.folder(tmp_path_factory.mktemp("data"), list(CATALOGUE)) as folder:
        yield folder


def by_label(figure, data_set):
    """The runs on one data set."""
    return {
        curve.label: curve.run
        for panel in figure.panels
        for curve in panel.curves
        if curve.run.problem == ProblemSpec("libsvm", data_set)
    }


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
    """rule, beta, c, gamma_max, omega, kappa's scaling and growth of each method."""
    runs = by_label(figure2(), "mushrooms")
    found = {
        name: (run.method.rule, run.method.beta, run.method.c, run.method.gamma_max,
               run.method.omega, run.method.scaling, run.method.growth)
        for name, run in runs.items() if name in ADAPTIVE
    }  # fmt: skip
    assert found == {
        "SHB-PS": ("polyak", 0.9, 1.0, 1.0, None, "practical", 4.0),
        "SPS": ("polyak", 0.0, 0.1, 1.0, None, "plain", 4.0),
        "SHB-ALS": ("armijo", 0.9, 0.1, 1.0, 0.9, "practical", 2.0),
        "SLS": ("armijo", 0.0, 0.1, 1.0, 0.9, "plain", 2.0),
    }
    assert {runs[name].method.steps_per_epoch for name in ADAPTIVE} == {2}  # ceil(150 / 128)
    fixed = [runs[name].method for name in FIXED]
    assert [method.gamma_max for method in fixed] == [1e-4, 1e-3, 1e-2, 1e-1]
    assert {(method.rule, method.beta) for method in fixed} == {("fixed", 0.9)}
    assert fixed[0].growth_factor() == math.inf


def test_the_papers_cap_leaves_the_rules_no_choice():
    """On rows of unit length no rule asks for less than 1, but each for less than 100."""
    for cap, at_cap in ((1.0, True), (100.0, False)):
        known = methods(tiny_libsvm.ROWS, cap)
        for name in ADAPTIVE:
            assert (known[name].least_steps(L=0.25, first=0, count=1) >= cap).all() == at_cap


def test_rows_have_unit_length_and_the_larger_label_is_positive(eight):
    problem = ProblemSpec("libsvm", "mushrooms").build()
    norms = problem.rows.norms()
    assert norms[7] == 0.0
    np.testing.assert_allclose(np.delete(norms, 7), 1.0, rtol=1e-14)
    labels = [line[0] for line in (eight / "mushrooms").read_text().splitlines()]
    np.testing.assert_array_equal(problem.y, np.where(np.array(labels) == "2", 1.0, -1.0))
    assert problem.f_star[7] == math.log(2.0)
    assert problem.f_star.sum() == math.log(2.0)
    assert problem.largest_penalty == 0.0


def test_the_largest_step_changes_the_adaptive_methods_only(eight):
    paper, companion = figure2(), figure2(max_step=100.0)
    assert companion.name == "figure2_max_step_100"
    one, other = by_label(paper, "w8a"), by_label(companion, "w8a")
    assert {name for name in one if one[name].key() != other[name].key()} == set(ADAPTIVE)
    assert {other[name].method.gamma_max for name in ADAPTIVE} == {100.0}
    with pytest.raises(ValueError, match=r"max_step \(gamma_max\) must be > 0 and finite, got -1"):
        figure2(max_step=-1.0)


def test_the_last_step_is_recorded():
    run = RunSpec(ProblemSpec("libsvm", "a9a"), None, 2, 1050, 128, 100)
    assert run.grid().tolist() == [*range(100, 1001, 100), 1050]
    assert replace(run, iterations=1000).grid().tolist() == list(range(100, 1001, 100))


def test_keys_depend_on_grid_batch_and_data(eight, tmp_path, monkeypatch):
    run = by_label(figure2(), "mushrooms")["SHB-PS"]
    changed = [replace(run, batch_size=64), replace(run, every=50), replace(run, every=None)]
    keys = {run.key(), *(other.key() for other in changed)}
    assert len(keys) == 4
    with tiny_libsvm.folder(tmp_path, []) as folder:
        text = (eight / "mushrooms").read_bytes()
        (folder / "mushrooms.bz2").write_bytes(bz2.compress(text))
        assert run.key() in keys  # the same data elsewhere, packed
        last = text.rindex(b"1.0")
        other = text[:last] + b"1.1" + text[last + 3 :]
        (folder / "mushrooms").write_bytes(other)
        with pytest.raises(ValueError, match="is not the published mushrooms"):
            run.key()
        entry = replace(CATALOGUE["mushrooms"], text_sha256=hashlib.sha256(other).hexdigest())
        monkeypatch.setitem(CATALOGUE, "mushrooms", entry)
        assert run.key() not in keys


def test_interval_is_students():
    values = np.random.default_rng(1).normal(size=(5, 7))
    mean, half_width = mean_and_half_width(values)
    for column, centre, half in zip(values.T, mean, half_width, strict=True):
        plain = sum(column) / 5
        assert centre == pytest.approx(plain, rel=1e-13)
        variance = sum((x - plain) ** 2 for x in column) / 4
        assert half == pytest.approx(STUDENT_4 * math.sqrt(variance / 5), rel=1e-12)


K = np.arange(100, 2001, 100)
LEVELS = {
    "SHB-PS": 1e-3, "SPS": 1e-2, "SHB-ALS": 1e-3, "SLS": 1e-2, **dict.fromkeys(FIXED, 2e-2),
}  # fmt: skip


def trajectory(loss, **others):
    """Five seeds around a curve of losses."""
    loss = loss * np.linspace(0.9, 1.1, 5)[:, None]
    metrics = {name: np.zeros_like(loss) for name in TRAINING_METRICS}
    return Trajectories(K, tuple(range(5)), {**metrics, "loss": loss, **others})


def ideal(figure):
    """Tables on which every claim holds."""
    return {
        curve.run.key(): trajectory(LEVELS[curve.label] * (1.0 + 50.0 / K))
        for panel in figure.panels
        for curve in panel.curves
    }


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
    assert all(math.isnan(row.ratio_to_best) for row in rows_of(figure, results))
    with styled():
        for canvas in figure2_pictures(figure, results).values():
            canvas.draw_without_rendering()


def test_the_shares_of_steps_are_told(eight):
    figure = figure2()
    results = ideal(figure)
    ones = np.ones((5, len(K)))
    for name in CATALOGUE:
        key = by_label(figure, name)["SHB-PS"].key()
        results[key] = trajectory(np.ones(len(K)), capped=0.25 * ones, limited=0.5 * ones)
    assert "SHB-PS 25% (50%), SPS 0% (0%)" in figure2_table(figure, results).note


def test_nothing_is_claimed_of_a_companion(eight):
    figure = figure2(max_step=10.0)
    assert figure2_claims(figure, ideal(figure)) == []


def test_the_table_is_plain_arithmetic(eight):
    figure = figure2()
    rng = np.random.default_rng(5)
    results = {
        key: trajectory(rng.uniform(0.5, 1.0, len(K)), **{
            name: rng.random((5, len(K))) for name in TRAINING_METRICS if name != "loss"
        })
        for key in ideal(figure)
    }  # fmt: skip
    table = figure2_table(figure, results)
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


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def files(out):
    return {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}


@pytest.fixture
def three(tmp_path):
    """Three of the data sets, real-sim among them."""
    names = ["mushrooms", "real-sim", "svmguide1"]
    with tiny_libsvm.folder(tmp_path / "data", names) as folder:
        yield folder


@pytest.fixture
def no_pictures(monkeypatch):
    """They take seconds."""
    monkeypatch.setattr(reproduce, "_pictures", lambda *arguments: [])


def test_reproduce_writes_everything_and_claims_reads_it(three, tmp_path, monkeypatch):
    out = tmp_path / "results"
    result = invoke("reproduce", "figure2", *SMALL, "--out", out)
    assert result.exit_code in (0, 1), result.output
    pictures = [f"figure2{cap}{kind}" for cap in ("", "_max_step_100") for kind in ("", "_steps")]
    assert files(out) >= {
        *(f"{name}.{ending}" for name in pictures for ending in ("png", "pdf")),
        *(f"figure2/table{cap}.{ending}" for cap in ("", "_max_step_100") for ending in ("csv", "md")),
        "figure2/claims.json",
    }  # fmt: skip
    assert len(list((out / "figure2" / "runs").glob("*.parquet"))) == 3 * (8 + 4)
    assert "no a9a, cod-rna, ijcnn1, phishing, w8a in" in result.stderr
    assert "heavystep data fetch a9a" in result.stderr
    entries = json.loads((out / "figure2" / "claims.json").read_text())
    assert len(entries) == 4 + 4 + 6
    shown = invoke("claims", "--out", out)
    assert shown.exit_code == int(not all(entry["holds"] for entry in entries))
    assert "figure2.real-sim.PS" in shown.stdout
    assert "figure2: 2 runs of 1,000 steps" in shown.stderr
    assert "no a9a, cod-rna" in shown.stderr
    monkeypatch.setattr(reproduce, "_pictures", lambda *arguments: [])  # they take seconds
    before = {name: (out / name).read_bytes() for name in files(out)}
    again = invoke("reproduce", "figure2", *SMALL, "--out", out)
    assert "36 of 36 runs are there already" in again.stderr
    assert {name: (out / name).read_bytes() for name in files(out)} == before


def test_one_largest_step_shares_the_fixed_runs(three, tmp_path, no_pictures):
    out = tmp_path / "results"
    paper = invoke("reproduce", "figure2", *SMALL, "--out", out, "--max-step", "1")
    assert paper.exit_code in (0, 1), paper.output
    assert "claims hold" in paper.stdout
    claims = (out / "figure2" / "claims.json").read_bytes()
    other = invoke("reproduce", "figure2", *SMALL, "--out", out, "--max-step", "2.5", "--jobs", "1")
    assert other.exit_code == 0, other.output
    assert "12 of 24 runs are there already" in other.stderr
    assert "claims hold" not in other.stdout
    assert (out / "figure2" / "claims.json").read_bytes() == claims
    assert "figure2/table_max_step_2.5.csv" in files(out)


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf"])
def test_a_largest_step_out_of_range_is_one_line(value, three, tmp_path):
    out = tmp_path / "results"
    result = invoke("reproduce", "figure2", *SMALL, "--out", out, "--max-step", value)
    assert result.exit_code == 2
    assert "max_step (gamma_max) must be > 0 and finite" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not out.exists()


def test_without_data_nothing_is_written(tmp_path):
    out = tmp_path / "results"
    with tiny_libsvm.folder(tmp_path / "data", []) as folder:
        result = invoke("reproduce", "figure2", *SMALL, "--out", out)
    assert result.exit_code == 2
    assert len(result.stderr.strip().splitlines()) == 1
    for part in ("no a9a", "real-sim", str(folder), "heavystep data fetch a9a", "HEAVYSTEP_DATA"):
        assert part in result.stderr
    assert not out.exists()


def test_a_damaged_data_file_is_named_before_anything_is_written(three, tmp_path):
    out = tmp_path / "results"
    (three / "svmguide1").write_text("1 1:0.5\n2 2:abc\n")
    result = invoke("reproduce", "figure2", *SMALL, "--out", out)
    assert result.exit_code == 2
    assert str(three / "svmguide1") in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not out.exists()


def test_claims_need_the_runs_on_all_data_that_are_here(three, tmp_path, no_pictures):
    out = tmp_path / "results"
    assert invoke("reproduce", "figure2", *SMALL, "--out", out).exit_code in (0, 1)
    with tiny_libsvm.folder(tmp_path / "data", ["w8a"]):
        result = invoke("claims", "--out", out)
    assert result.exit_code == 2
    assert "only 24 of 32" in result.stderr


def test_claims_without_the_data_say_why_not(three, tmp_path, no_pictures):
    out = tmp_path / "results"
    assert invoke("reproduce", "figure2", *SMALL, "--out", out).exit_code in (0, 1)
    for path in three.iterdir():
        path.unlink()
    result = invoke("claims", "--out", out)
    assert result.exit_code == 2
    assert "figure2: 2 runs of 1,000 steps cannot be evaluated: no a9a" in result.stderr
    assert "nothing to evaluate under" in result.stderr
