"""What the report reads: every kind of results folder, and what is damaged in it."""

import json
import os

import numpy as np
import pytest

from heavystep import parquet
from heavystep.certificates.theorems import promise
from heavystep.paper.figure1.bounds import bound
from heavystep.report.commands import commands
from heavystep.report.described import described, labels
from heavystep.report.page import render, write_report
from heavystep.report.panels import panels
from heavystep.report.reading import _read, read_part, read_results
from heavystep.report.slack import certificates
from tests.helpers import figure3_results
from tests.helpers.results_folder import comparison, falling, specification, write_run
from tests.helpers.small_figure1 import damage_data


def test_numbers_are_those_that_were_stored(tmp_path):
    metrics = falling(seeds=3)
    write_run(tmp_path / "sweep", specification(seeds=3), metrics)
    (run,) = read_part(tmp_path / "sweep").runs
    assert run.seeds == (0, 1, 2)
    for name, values in metrics.items():
        np.testing.assert_array_equal(run.metrics[name], values)


def test_parts_are_found_at_every_depth_that_commands_write_to(tmp_path):
    comparison(tmp_path / "compare")
    (tmp_path / "figure1").mkdir()
    (tmp_path / "figure1" / "claims.json").write_text(
        json.dumps([{"id": "a", "text": "b", "holds": True, "measured": {"x": 1.0}}])
    )
    assert [part.name for part in read_results(tmp_path)] == ["compare", "figure1"]
    assert [part.name for part in read_results(tmp_path / "compare")] == ["compare"]
    assert read_results(tmp_path)[0].tables["a9a.csv"][1] == ["SPS", "1e-3"]


def test_training_runs_come_together_by_their_seeds(tmp_path):
    figure3_results.fill(tmp_path)
    (part,) = read_results(tmp_path)
    for run in part.runs:
        assert run.seeds == (0, 1, 2)
        assert len(run.made_on) >= 1
        assert run.metrics["loss"].shape == (3, len(run.k))
    assert commands(part)[0].startswith("heavystep reproduce figure3 ")


def test_a_shorter_seed_ends_in_nothing(tmp_path):
    for seed, points in ((0, 5), (1, 3)):
        spec = {**specification(), "seed": seed, "seeds": 1}
        write_run(tmp_path, spec, falling(seeds=1, points=points))
    (run,) = read_part(tmp_path).runs
    assert np.isnan(run.metrics["loss"][1, 3:]).all()
    assert np.isfinite(run.metrics["loss"][0]).all()


def test_what_is_damaged_is_named_and_left_out(tmp_path):
    comparison(tmp_path)
    first, second, _ = sorted((tmp_path / "runs").iterdir())
    damage_data(first)
    second.write_bytes(b"no parquet")
    (tmp_path / "claims.json").write_text('{"id": 1}')
    part = read_part(tmp_path)
    assert len(part.runs) == 1
    assert {first.name, second.name} <= {note.split()[0] for note in part.notes}
    assert any(note.startswith("claims.json is not a list of claims") for note in part.notes)


@pytest.mark.parametrize("text", ["[]", "{}", '{"method": 3}', '{"method": {"name": "SPS"}}', "1"])
def test_a_file_that_does_not_say_what_it_is(text):
    with pytest.raises(ValueError, match="does not say which method ran on which problem"):
        described(text)


COLUMNS = {"seed": np.repeat([0, 1], 5), "k": np.tile(np.arange(5), 2), "loss": np.arange(10.0)}
STRANGE = {
    "no steps": (specification(), {"seed": np.zeros(3), "loss": np.zeros(3)}, {}),
    "times that are none": (specification(), COLUMNS, {"seconds": "null"}),
    "times in times": (specification(), COLUMNS, {"seconds": "[[1]]"}),
    "stretches that are none": (specification(), COLUMNS, {"stretches": "5"}),
    "versions that are none": ({**specification(), "versions": 5}, COLUMNS, {}),
    "no end": ({**specification(), "iterations": np.inf}, COLUMNS, {}),
    "a seed beyond all": ({**specification(), "seed": np.inf}, COLUMNS, {}),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_a_strange_file_is_left_out_and_the_others_are_shown(tmp_path, kind):
    comparison(tmp_path)
    spec, columns, notes = STRANGE[kind]
    parquet.write(tmp_path / "runs" / "strange.parquet", json.dumps(spec), columns, notes)
    part = read_part(tmp_path)
    assert len(part.runs) == 3
    (note,) = part.notes
    assert note.startswith("strange.parquet")
    assert note.endswith("it is left out")
    assert note.split("strange.parquet")[1] in render([part], tmp_path)


def test_json_within_json_without_end_is_left_out(tmp_path):
    comparison(tmp_path)
    deep = "[" * 100_000
    parquet.write(tmp_path / "runs" / "strange.parquet", deep, COLUMNS)
    (tmp_path / "claims.json").write_text(deep)
    part = read_part(tmp_path)
    assert len(part.runs) == 3
    assert len(part.notes) == 2


def test_names_that_are_no_text_and_numbers_that_are_no_floats_are_shown(tmp_path):
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    claim = {"id": "a", "text": "b", "holds": True, "measured": {"large": 10**400}}
    (folder / "claims.json").write_text(json.dumps([claim]))
    write_report(tmp_path, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert r"<h2>\udcff</h2>" in text
    assert "1" + "0" * 400 in text


def test_a_folder_without_results_is_refused(tmp_path):
    (tmp_path / "mine.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="holds no runs, claims or tables"):
        read_results(tmp_path)
    with pytest.raises(ValueError, match="there is no folder"):
        read_results(tmp_path / "nowhere")


def test_labels_say_no_more_than_is_needed():
    specs = [specification(momentum=m, max_step=m / 7) for m in (0.5, 0.9)] + [specification("SPS")]
    found = labels(described(json.dumps(spec)) for spec in specs)
    assert found == ["SHBPolyak, momentum 0.5", "SHBPolyak, momentum 0.9", "SPS"]


def test_runs_of_different_lengths_are_different_panels(tmp_path):
    for iterations in (40, 80):
        spec = specification(iterations=iterations)
        write_run(tmp_path, spec, falling(points=iterations))
    assert [panel.title for panel in panels(read_part(tmp_path))] == [
        "a9a, 40 steps",
        "a9a, 80 steps",
    ]


def test_a_crowded_panel_draws_the_best_of_each_method_first(tmp_path):
    for number in range(16):
        name = "SHBPolyak" if number < 12 else f"M{number}"
        write_run(tmp_path, specification(name, c=float(number)), falling(rate=0.1 + number / 100))
    (panel,) = panels(read_part(tmp_path))
    drawn = [label for label, shown in zip(panel.labels, panel.shown, strict=True) if shown]
    assert drawn == ["SHBPolyak, c 11", "M12", "M13", "M14", "M15"]


def runs_in(store):
    return [_read(path) for path in sorted(store.folder.glob("*.parquet"))]


def test_certificates_of_figure1(small_figure1):
    figure, store, results = small_figure1
    runs = runs_in(store)
    found = certificates(runs)
    assert all(each.holds for each in found)
    by_theorem = [each for each in found if each.result.startswith("Theorem")]
    curves = [c for panel in figure.panels for c in panel.curves if not c.diminishing]
    assert len(by_theorem) == len(curves)
    for curve in curves:
        result = results[curve.run.key()]
        values = result.metrics[curve.metric]
        ratio = (values.mean(0) - values.std(0, ddof=1) / np.sqrt(len(values))) / bound(
            curve.run, result.k
        )
        text = curve.run.text()
        (own,) = [each for each in by_theorem if runs[each.run].about.identity() == text]
        assert own.slack == pytest.approx(1.0 - ratio.max(), rel=1e-12)
        assert own.k == result.k[ratio.argmax()]


def test_a_broken_bound_is_seen(small_figure1):
    _, store, _ = small_figure1
    runs = runs_in(store)
    for run in runs:
        for name in run.metrics:
            run.metrics[name] *= 1e12
    found = certificates(runs)
    assert not any(each.holds for each in found if each.result.startswith("Theorem"))
    assert all(each.slack < 0 for each in found if each.result.startswith("Theorem"))


def test_the_promise_names_the_theorem_of_the_problem(small_figure1):
    figure, _, _ = small_figure1
    for panel in figure.panels:
        run = next(curve.run for curve in panel.curves if not curve.diminishing)
        problem = run.problem.finite_sum()
        made = promise(problem, run.method.theory, dict(run.method.options))
        assert hasattr(made, "A") == problem.convex
