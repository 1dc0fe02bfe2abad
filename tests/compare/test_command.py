"""``heavystep compare`` from the shell: files, what is kept, and what is refused."""

import csv
import math
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from heavystep.cli.app import app
from heavystep.compare import run as writing
from heavystep.compare.plan import plan
from heavystep.methods import METHODS, method_of
from heavystep.problems import paper_cosine
from heavystep.rules import REQUIRED
from heavystep.simulation.run import simulate
from heavystep.sweeps.store import Store
from tests.helpers import tiny_libsvm

TINY = ["--seeds", "2", "--iterations", "40"]


def invoke(*arguments):
    return CliRunner().invoke(app, ["compare", *map(str, arguments)])


@pytest.fixture
def no_pictures(monkeypatch):
    """They take seconds."""
    monkeypatch.setattr(writing, "save", lambda canvas, path, dpi: [])


def lines(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def rows(path):
    return {row["method"]: row for row in lines(path)}


@pytest.mark.slow  # compiles kernels
def test_a_libsvm_file_by_its_path(tmp_path):
    data, out = tmp_path / "my_data.txt", tmp_path / "out"
    data.write_text(tiny_libsvm.text(seed=1)[0])
    shown = invoke("--problem", data, "--methods", "SHBPolyak,SLS", *TINY, "--out", out)
    assert shown.exit_code == 0, shown.output
    assert "SHBPolyak" in shown.stdout
    written = {path.name for path in out.iterdir()}
    endings = (".png", ".pdf", ".csv", "_grid.csv", ".md")
    assert written == {".heavystep", "runs", "README.md", *(f"my_data{each}" for each in endings)}
    assert len(list((out / "runs").glob("*.parquet"))) == 2 * 7
    found = rows(out / "my_data.csv")
    assert float(found["SHBPolyak"]["forwards"]) == float(found["SHBPolyak"]["backwards"]) == 40.0
    assert float(found["SLS"]["forwards"]) > 40.0
    for row in found.values():
        assert 0.0 < float(row["final_loss"]) < math.log(2.0)
        assert float(row["seconds"]) > 0.0
    page = (out / "README.md").read_text()
    assert "![my_data](my_data.png)" in page
    assert "mean over the grid of min{l_0, l} - l*" in page


@pytest.mark.slow  # compiles kernels
def test_what_is_there_is_not_made_again(tmp_path, no_pictures):
    out, one = tmp_path / "out", ("--problem", "cosine", *TINY)
    assert invoke(*one, "--methods", "SHBPolyak", "--out", out).exit_code == 0
    files = sorted((out / "runs").iterdir())
    before = {path: path.read_bytes() for path in files}
    files[0].unlink()  # as if it had been stopped there
    again = invoke(*one, "--methods", "SHBPolyak,NGN", "--out", out)
    assert again.exit_code == 0, again.output
    assert "6 of 14 runs are there already" in again.stderr
    assert all(path.read_bytes() == before[path] for path in files[1:])
    other = invoke("--problem", "least squares", "--methods", "NGN", *TINY, "--out", out)
    assert other.exit_code == 0, other.output
    page = (out / "README.md").read_text()
    assert "## cosine" in page
    assert "## least squares" in page


def test_numbers_are_those_of_simulate(tmp_path, no_pictures):
    shown = invoke("--problem", "cosine", "--methods", "SLS", *TINY, "--out", tmp_path)
    assert shown.exit_code == 0, shown.output
    expected = simulate(
        paper_cosine("strong_growth"), "SLS", seeds=2, iterations=40, grid=np.array([40]),
        max_step=1.0, steps_per_epoch=512, max_trials=10_000,
    )  # fmt: skip
    row = rows(tmp_path / "cosine.csv")["SLS"]
    assert float(row["final_loss"]) == pytest.approx(expected.metrics["gap_last"].mean(), rel=1e-9)
    assert float(row["forwards"]) == 40 + expected.metrics["trials"].mean()


def test_a_method_with_options_is_a_row_of_its_own(tmp_path, no_pictures):
    """The rule that the options ask for, its default in the middle of the grid."""
    paper = "SHBPolyak:scaling=practical"
    shown = invoke("--problem", "cosine", "--methods", f"{paper},SPS", *TINY, "--out", tmp_path)
    assert shown.exit_code == 0, shown.output
    expected = simulate(
        paper_cosine("strong_growth"), "SHBPolyak", seeds=2, iterations=40, grid=np.array([40]),
        scaling="practical", max_step=1.0, steps_per_epoch=512,
    )  # fmt: skip
    found = rows(tmp_path / "cosine.csv")
    assert set(found) == {paper, "SPS"}
    ends = float(found[paper]["final_loss"])
    assert ends == pytest.approx(expected.metrics["gap_last"].mean(), rel=1e-9)


def test_options_are_defaults_around_which_the_constant_is_varied():
    (entry,) = plan("cosine", ["SPS:c=0.7:max_step=10"]).entries
    assert entry.constants[entry.centre] == 10.0
    given = {run.content()["method"]["options"]["c"] for run in entry.runs}
    assert given == {0.7}
    assert plan("cosine", ["SPS:max_step=1"]).runs().keys() == plan("cosine", ["SPS"]).runs().keys()
    (third,) = plan("cosine", [f"SPS:max_step={1 / 3}"]).entries
    assert third.constants[third.centre] == pytest.approx(1 / 3, rel=1e-11)


def test_a_method_that_is_written_in_two_ways_has_one_row():
    ways = ["SPS:c=0.5", "SPS: c=.50", "SPS:c=5e-1"]
    assert [entry.method for entry in plan("cosine", ways).entries] == ["SPS:c=0.5"]


def test_a_method_that_diverges_counts_as_the_start(tmp_path, no_pictures):
    arguments = ("--problem", "noisy least squares", "--methods", "SHB", "--seeds", 2)
    shown = invoke(*arguments, "--iterations", 400, "--out", tmp_path)
    assert shown.exit_code == 0, shown.output
    grid = lines(tmp_path / "noisy_least_squares_grid.csv")
    start = max(float(row["counted"]) for row in grid)
    assert grid[-1]["final_loss"] == "nan"  # lr = 100
    assert float(grid[-1]["counted"]) == start
    best = min(float(row["counted"]) for row in grid)
    score = np.mean([float(row["counted"]) - best for row in grid])
    row = rows(tmp_path / "noisy_least_squares.csv")["SHB"]
    assert float(row["sensitivity"]) == pytest.approx(score)
    assert int(row["failed"]) >= 2
    wanted = plan("noisy least squares", ["SHB"], seeds=2, iterations=400)
    last = Store(tmp_path / "runs").load(wanted.entries[0].runs[-1])  # kept, and not tried again
    assert np.isnan(last.metrics["gap_last"][:, -1]).all()
    assert len(last.seconds) == 2


def test_a_small_network(tmp_path, no_pictures):
    pytest.importorskip("sklearn")
    shown = invoke(
        "--problem", "digits", "--methods", "SHBPolyak,SHBArmijo", "--seeds", 1, "--epochs", 1,
        "--batch-size", 256, "--out", tmp_path,
    )  # fmt: skip
    assert shown.exit_code == 0, shown.output
    found = rows(tmp_path / "digits.csv")
    assert float(found["SHBPolyak"]["forwards"]) == 7.0
    assert float(found["SHBArmijo"]["forwards"]) > 7.0
    assert float(found["SHBPolyak"]["final_loss"]) < math.log(10.0)
    again = invoke("--problem", "digits", "--batch-size", 5000, "--out", tmp_path)
    assert (again.exit_code, again.stdout) == (2, "")
    assert "batch_size must be in 1..1797" in again.stderr


@pytest.fixture
def demanding(monkeypatch):
    """A method that wants an option which nobody gives."""
    row = method_of("SHBPolyak")
    needy = replace(row.rule.options[0], default=REQUIRED)
    method = replace(row, name="Demanding", described=(needy,))
    monkeypatch.setitem(METHODS, "Demanding", method)
    return needy.name


def test_a_method_that_cannot_run_is_left_out(demanding, tmp_path, no_pictures):
    shown = invoke("--problem", "cosine", "--methods", "SPS,Demanding", *TINY, "--out", tmp_path)
    assert shown.exit_code == 0, shown.output
    assert f"cosine: Demanding is left out: Demanding needs {demanding}" in shown.stderr
    assert "Left out: Demanding" in (tmp_path / "README.md").read_text()
    alone = invoke("--problem", "cosine", "--methods", "Demanding", *TINY, "--out", tmp_path)
    assert alone.exit_code == 2
    assert "no method can run on cosine: Demanding: Demanding needs" in alone.stderr


def test_methods_whose_batches_are_shared_do_not_train(tmp_path):
    with pytest.raises(ValueError, match="SLiSeS: successive steps must share batches"):
        plan("digits", ["SLiSeS"])


@pytest.mark.slow  # compiles kernels
def test_runs_that_fail_cost_their_method_only(tmp_path, no_pictures, monkeypatch):
    class Failing(type(plan("cosine", ["NGN"]).entries[0].runs[0])):
        def job(self, seeds):
            return replace(super().job(seeds), work=fail)

    def broken(problem, names, **size):
        made = plan(problem, names, **size)
        first, *others = made.entries
        fields = {name: getattr(first.runs[0], name) for name in first.runs[0].__dataclass_fields__}
        runs = (Failing(**fields), *first.runs[1:])
        return replace(made, entries=(replace(first, runs=runs), *others))

    monkeypatch.setattr("heavystep.compare.plan.plan", broken)
    shown = invoke("--problem", "cosine", "--methods", "NGN,SPSSafe", *TINY, "--out", tmp_path)
    assert shown.exit_code == 1, shown.output
    assert "cosine: NGN is left out, because runs failed" in shown.stderr
    assert set(rows(tmp_path / "cosine.csv")) == {"SPSSafe"}


def fail(*arguments, advance):
    raise RuntimeError("on purpose")


REFUSED = {
    "problem": (["--problem", "nowhere"], "problem must be one of 'least squares', "),
    "path": (["--problem", "nowhere"], "or the path of a LIBSVM file, got 'nowhere'"),
    "method": (
        ["--problem", "cosine", "--methods", "SPSSave"],
        "no method is named 'SPSSave'; nearest: SPSSafe",
    ),
    "option": (
        ["--problem", "cosine", "--methods", "SPS:d=1"],
        "SPS has no option 'd': it has",
    ),
    "value": (
        ["--problem", "cosine", "--methods", "SPS:c"],
        "'SPS:c': 'c' must be followed by = and a number or a word",
    ),
    "constant": (
        ["--problem", "cosine", "--methods", "SPS,SPS:max_step=-1"],
        "max_step (gamma_max) must be > 0 and finite, got -1",
    ),
    "word": (
        ["--problem", "cosine", "--methods", "SPS,SHBPolyak:scaling=practicl"],
        "got 'practicl'; did you mean 'practical'?",
    ),
    "none": (["--problem", "cosine", "--methods", ","], "--methods names none"),
    "seeds": (["--problem", "cosine", "--seeds", "0"], "seeds must be >= 1, got 0"),
    "length": (
        ["--problem", "cosine", "--iterations", "5", "--epochs", "5"],
        "iterations or epochs, not both",
    ),
    "engine": (["--problem", "cosine", "--engine", "tractor"], "engine must be one of 'local'"),
    "jobs": (["--problem", "cosine", "--jobs", "0"], "jobs must be >= 1"),
}


@pytest.mark.parametrize(("arguments", "text"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_one_line(arguments, text, tmp_path):
    shown = invoke(*arguments, "--out", tmp_path / "out")
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert text in shown.stderr
    assert shown.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_bad_files_are_named(tmp_path):
    for name, content, text in (
        ("words", "1 2:x\n", "line 1: value"),
        ("three", "1 1:1\n2 1:1\n3 1:1\n", "labels must have exactly two values, got 3"),
    ):
        (tmp_path / name).write_text(content)
        shown = invoke("--problem", tmp_path / name, "--out", tmp_path / "out")
        assert shown.exit_code == 2
        assert text in shown.stderr
        assert str(tmp_path / name) in shown.stderr


def test_files_of_others_and_two_of_one_name_are_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("do not touch")
    shown = invoke("--problem", "cosine", *TINY, "--out", tmp_path)
    assert shown.exit_code == 2
    assert "holds other files" in shown.stderr
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same").write_text(tiny_libsvm.text(seed=1)[0])
    both = invoke(
        "--problem", tmp_path / "a" / "same", "--problem", tmp_path / "b" / "same",
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert both.exit_code == 2
    assert "two problems would both write same.png" in both.stderr


def test_a_data_set_that_is_not_here(tmp_path):
    with tiny_libsvm.folder(tmp_path / "data", []):
        shown = invoke("--problem", "a9a", "--out", tmp_path / "out")
    assert shown.exit_code == 2
    assert "heavystep data fetch a9a" in shown.stderr
