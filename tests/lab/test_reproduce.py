"""``heavystep reproduce`` and ``heavystep claims``: what they write, refuse and survive."""

import json

import pytest
from typer.testing import CliRunner

from heavystep.cli.app import app
from heavystep.lab.figures import figure as figures
from heavystep.lab.store import MARK
from tests.helpers import tiny_libsvm
from tests.helpers.figure3_results import EPOCHS, fill

SMALL = ["--seeds", "2", "--iterations", "1000"]


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def reproduced(figure, out, *arguments):
    """What is said; claims need more than 1000 steps."""
    result = invoke("reproduce", figure, *arguments, "--out", out)
    assert result.exit_code in (0, 1), result.output
    return result


def files(out):
    return {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file()}


def claims_of(out, figure):
    return json.loads((out / figure / "claims.json").read_text())


@pytest.fixture
def three(tmp_path):
    """Three of the data sets, real-sim among them."""
    names = ["mushrooms", "real-sim", "svmguide1"]
    with tiny_libsvm.folder(tmp_path / "data", names) as folder:
        yield folder


@pytest.fixture
def no_pictures(monkeypatch):
    """They take seconds."""
    monkeypatch.setattr(figures, "save", lambda *arguments: [])


WHOLE = {
    "figure1": (28, {"figure1.png", "figure1.pdf", "figure1/claims.json", MARK}),
    "figure2": (36, {
        "figure2.png", "figure2.pdf", "figure2/claims.json", "figure2/table.csv",
        "figure2_max_step_100.png", "figure2_max_step_100.pdf", "figure2/table_max_step_100.csv",
    }),
}  # fmt: skip
"""How many runs and which files; of three data sets."""


@pytest.mark.slow
@pytest.mark.parametrize("figure", WHOLE)
def test_everything_is_written_and_nothing_run_twice(figure, three, tmp_path):
    out, (runs, names) = tmp_path / "results", WHOLE[figure]
    said = reproduced(figure, out, *SMALL, "--jobs", "2").stderr
    assert ("heavystep data fetch a9a" in said) == (figure == "figure2")
    before, entries = files(out), claims_of(out, figure)
    assert set(before) >= names
    assert {"id", "of", "text", "holds", "measured"} == set(entries[0])
    assert {entry["of"] for entry in entries} == {"paper", "project"}
    shown = invoke("claims", "--out", out)
    assert shown.exit_code == int(not all(entry["holds"] for entry in entries))
    for part in (f"{figure}.{entries[0]['id']}", "of the paper's claims hold"):
        assert part in shown.stdout
    assert f"{runs} of {runs} runs are there already" in reproduced(figure, out, *SMALL).stderr
    assert files(out) == before


def test_some_panels(tmp_path, no_pictures):
    reproduced("figure1", tmp_path, *SMALL, "--panels", "c, d")
    assert {entry["id"][0] for entry in claims_of(tmp_path, "figure1")} == {"c", "d"}


def test_one_largest_step_shares_the_fixed_runs(three, tmp_path, no_pictures):
    out = tmp_path / "results"
    paper = reproduced("figure2", out, *SMALL, "--max-step", "1")
    assert "claims hold" in paper.stdout
    claims = claims_of(out, "figure2")
    other = reproduced("figure2", out, *SMALL, "--max-step", "2.5", "--jobs", "1")
    assert "12 of 24 runs are there already" in other.stderr
    assert "claims hold" not in other.stdout
    assert claims_of(out, "figure2") == claims
    assert "figure2/table_max_step_2.5.csv" in files(out)


def test_figure3_draws_what_is_there(tmp_path, no_pictures):
    """At another size than the paper's, claims are shown and not judged."""
    out, drawing = tmp_path / "results", ["--quick", "--no-train", "--epochs"]
    assert invoke("reproduce", "figure3", *drawing, 9, "--out", out).exit_code == 2
    fill(out, ("cifar10",), scale=figures.figure_module("figure3").SMALL, seeds=1)
    result = reproduced("figure3", out, *drawing, EPOCHS, "--seed", 0)
    assert "at this size claims show how they are measured" in result.stdout
    assert {claim["judged"] for claim in claims_of(out, "figure3")} == {False}
    some = reproduced("figure3", out, *drawing, EPOCHS, "--methods", "SPS", "--datasets", "cifar10")
    assert "SHB-PS" not in some.stdout
    assert "claims hold" not in some.stdout
    refused = invoke("reproduce", "figure3", *drawing, 90, "--out", out).stderr
    assert "reaches epoch 90: give fewer --epochs, or leave out --no-train" in refused


DAMAGED = "damaged"
BAD = [
    (["reproduce", "figure9"], "figure must be one of 'figure1', 'figure2', 'figure3', got"),
    (["reproduce", "figure1", "--seeds", "-3"], "seeds must be >= 2, got -3"),
    (["reproduce", "figure1", "--iterations", "0"], "iterations must be >= 1000, got 0"),
    (["reproduce", "figure1", "--iterations", "1" + 22 * "0"], "iterations must be <= 1e+10"),
    (["reproduce", "figure1", "--max-step", "1"], "figure1 has no --max-step: it is for figure2"),
    (["reproduce", "figure1", "--panels", "x"], "panels must be one of"),
    (["reproduce", "figure3", "--methods", "SGD"], "methods must be one of"),
    (["reproduce", "figure3", "--seed", "-1"], "seed must be >= 0"),
    (["reproduce", "figure3", "--engine", "ray"], "it is for figure1 and figure2 only"),
    (["claims", "--out", "nowhere"], "no claims under nowhere: run heavystep reproduce first"),
    (["claims", "--out", DAMAGED], "claims.json is not a list of claims: reproduce the figure"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_input_is_one_line(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / DAMAGED / "figure2").mkdir(parents=True)
    (tmp_path / DAMAGED / "figure2" / "claims.json").write_text('[{"id": "a"}]')
    result = invoke(*arguments)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert message in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == [DAMAGED]


def test_a_folder_that_is_not_ours_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    below = tmp_path / "thesis.tex" / "results"
    for out, told in ((tmp_path, "holds other files"), (below, f"cannot write to {below}")):
        result = invoke("reproduce", "figure1", *SMALL, "--out", out)
        assert result.exit_code == 2
        assert told in result.stderr
        assert files(tmp_path) == {"thesis.tex": b"precious"}


@pytest.mark.parametrize("damaged", [False, True])
def test_data_that_are_missing_or_damaged_are_told_before_anything_is_written(damaged, tmp_path):
    out = tmp_path / "results"
    with tiny_libsvm.folder(tmp_path / "data", ["svmguide1"] if damaged else []) as folder:
        if damaged:
            (folder / "svmguide1").write_text("1 1:0.5\n2 2:abc\n")
        result = invoke("reproduce", "figure2", *SMALL, "--out", out)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    parts = [str(folder / "svmguide1")] if damaged else ["no a9a", "heavystep data fetch a9a"]
    assert all(part in result.stderr for part in parts)
    assert not out.exists()
