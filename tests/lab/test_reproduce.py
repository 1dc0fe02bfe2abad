"""``heavystep reproduce figure1`` and ``heavystep claims``: what they write, refuse and survive."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from heavystep.cli.app import app
from heavystep.lab.files import MARK
from heavystep.lab.simulation import sweep

ARGUMENTS = ["--seeds", "2", "--iterations", "1000"]


def invoke(*arguments):
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.slow
def test_reproduce_writes_everything_and_claims_reads_it(tmp_path):
    out = tmp_path / "results"
    result = invoke("reproduce", "figure1", *ARGUMENTS, "--out", str(out), "--jobs", "2")
    assert result.exit_code in (0, 1), result.output  # claims need more than 1000 steps
    files = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert files >= {"figure1.png", "figure1.pdf", "figure1/claims.json", MARK}
    assert len([name for name in files if name.endswith(".parquet")]) == 28
    entries = json.loads((out / "figure1" / "claims.json").read_text())
    assert {"id", "of", "text", "holds", "measured"} == set(entries[0])
    shown = invoke("claims", "--out", str(out))
    assert shown.exit_code == int(not all(entry["holds"] for entry in entries))
    assert "figure1.a.bound" in shown.stdout
    assert "figure1: 2 runs of 1,000 steps" in shown.stderr
    (out / "figure1" / "claims.json").write_text("[]")
    assert invoke("claims", "--out", str(out)).stdout == shown.stdout  # from the runs, not from it
    picture = (out / "figure1.png").read_bytes()
    again = invoke("reproduce", "figure1", *ARGUMENTS, "--out", str(out))
    assert "28 of 28 runs are there already" in again.output
    assert (out / "figure1.png").read_bytes() == picture


BAD = [
    (
        ["reproduce", "figure9"],
        r"figure must be one of 'figure1', 'figure2', 'figure3', got 'figure9'",
    ),
    (["reproduce", "figure1", "--seeds", "-3"], r"seeds must be >= 2, got -3"),
    (["reproduce", "figure1", "--iterations", "0"], r"iterations must be >= 1000, got 0"),
    (
        ["reproduce", "figure1", "--iterations", "1" + 22 * "0"],
        r"iterations must be <= 1e+10, got 1000",
    ),
    (["reproduce", "figure1", "--jobs", "0"], r"jobs must be >= 1, got 0"),
    (
        ["reproduce", "figure1", "--max-step", "1"],
        r"figure1 has no --max-step: it is for figure2 only",
    ),
    (["claims", "--out", "nowhere"], r"nothing to evaluate under nowhere"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_input_is_one_line(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_ours_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    result = invoke("reproduce", "figure1", *ARGUMENTS, "--out", str(tmp_path))
    assert result.exit_code == 2
    assert "holds other files" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_claims_name_runs_that_are_not_used_any_more(small_figure1, tmp_path, monkeypatch):
    _, store, _ = small_figure1
    runs = tmp_path / "figure1" / "runs"
    runs.mkdir(parents=True)
    for path in store.folder.iterdir():
        (runs / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(sweep, "VERSION", sweep.VERSION + 1)
    result = invoke("claims", "--out", str(tmp_path))
    assert result.exit_code == 2
    change = f"simulation {sweep.VERSION - 1} is now {sweep.VERSION}"
    assert f"28 runs in {runs} are not used" in result.stderr
    assert f"({change}); heavystep reproduce figure1 runs them again" in result.stderr


@pytest.mark.slow
def test_some_panels_alone(tmp_path):
    out = str(tmp_path / "results")
    result = invoke("reproduce", "figure1", *ARGUMENTS, "--out", out, "--panels", "c, d")
    assert result.exit_code in (0, 1), result.output
    entries = json.loads((tmp_path / "results" / "figure1" / "claims.json").read_text())
    assert {entry["id"][0] for entry in entries} == {"c", "d"}
    assert {entry["of"] for entry in entries} == {"paper", "project"}
    shown = invoke("claims", "--out", out)
    assert "figure1.c.neighbourhood" in shown.stdout
    assert "figure1.a.bound" not in shown.stdout
    assert "panels c, d" in shown.stderr
    assert "of the paper's claims hold" in shown.stdout
    assert invoke("reproduce", "figure1", "--panels", "x").exit_code == 2


def test_without_the_extra_one_line_says_what_to_install(tmp_path):
    blocked = (
        "import sys; [sys.modules.__setitem__(m, None) for m in ('numba', 'pyarrow', 'matplotlib')]"
    )
    for arguments, code in (("'theory'", 0), ("'reproduce', 'figure1'", 2)):
        line = f"{blocked}; sys.argv = ['heavystep', {arguments}]; from heavystep.cli import main; main()"
        run = subprocess.run(
            [sys.executable, "-c", line], capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert run.returncode == code, run.stderr
        assert ("pip install 'heavystep[lab]'" in run.stderr) == (code == 2)
        assert len(run.stderr.splitlines()) == (code == 2)


def test_an_unwritable_folder_is_told(tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("")
    result = invoke("reproduce", "figure1", *ARGUMENTS, "--out", str(blocker / "results"))
    assert result.exit_code == 2
    assert f"cannot write to {blocker / 'results'}" in result.stderr
