"""``heavystep reproduce figure2`` and ``heavystep claims``."""

import bz2
import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from heavystep.cli.app import app
from heavystep.lab.data import LIBSVM
from heavystep.lab.figures import figure as figures
from tests.helpers import tiny_libsvm
from tests.helpers.data_sets import changed, file_of

SMALL = ["--seeds", "2", "--iterations", "1000"]


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
    monkeypatch.setattr(figures, "save", lambda *arguments: [])


@pytest.mark.slow
def test_reproduce_writes_everything_and_claims_reads_it(three, tmp_path, monkeypatch):
    out = tmp_path / "results"
    result = invoke("reproduce", "figure2", *SMALL, "--out", out)
    assert result.exit_code in (0, 1), result.output
    pictures = ["figure2", "figure2_max_step_100"]
    assert files(out) >= {
        *(f"{name}.{ending}" for name in pictures for ending in ("png", "pdf")),
        "figure2/table.csv", "figure2/table_max_step_100.csv",
        "figure2/claims.json",
    }  # fmt: skip
    assert len(list((out / "figure2" / "runs").glob("*.parquet"))) == 3 * (8 + 4)
    assert "no a9a" in result.stderr
    assert "heavystep data fetch a9a" in result.stderr
    entries = json.loads((out / "figure2" / "claims.json").read_text())
    assert len(entries) == 4 + 4 + 6
    shown = invoke("claims", "--out", out)
    assert shown.exit_code == int(not all(entry["holds"] for entry in entries))
    assert "figure2.real-sim.PS" in shown.stdout
    assert "figure2: 2 runs of 1,000 steps" in shown.stderr
    assert "no a9a" in shown.stderr
    monkeypatch.setattr(figures, "save", lambda *arguments: [])
    before = {name: (out / name).read_bytes() for name in files(out)}
    again = invoke("reproduce", "figure2", *SMALL, "--out", out)
    assert "36 of 36 runs are there already" in again.stderr
    assert {name: (out / name).read_bytes() for name in files(out)} == before


@pytest.mark.slow
def test_real_sim_in_its_own_shape(tmp_path, no_pictures):
    """A made twin, packed as published: as many rows and columns, and fewer entries in a row."""
    known, rng = LIBSVM["real-sim"], np.random.default_rng(0)
    columns = np.sort(rng.integers(1, known.dim, (known.n, 3)))
    labels = np.where(np.arange(known.n) < known.positives, "+1", "-1")
    lines = (
        f"{label} " + " ".join(f"{j}:0.5" for j in sorted({*row, known.dim * (i == 7) or row[0]}))
        for i, (label, row) in enumerate(zip(labels, columns.tolist(), strict=True))
    )
    text, out = ("\n".join(lines) + "\n").encode(), tmp_path / "results"
    with tiny_libsvm.folder(tmp_path, []) as libsvm:
        (libsvm / "real-sim.bz2").write_bytes(bz2.compress(text, 1))
        sizes = [*SMALL, "--max-step", "1"]
        refused = invoke("reproduce", "figure2", *sizes, "--out", out)
        assert refused.exit_code == 2  # its checksum is another one
        assert "real-sim" in refused.stderr
        with changed(**{"real-sim": replace(known, files=(file_of("libsvm/real-sim", text),))}):
            made = invoke("reproduce", "figure2", *sizes, "--out", out)
    assert made.exit_code in (0, 1), made.output
    assert "real-sim" in (out / "figure2" / "table.csv").read_text()
    assert len(list((out / "figure2" / "runs").glob("*.parquet"))) == 8


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


def test_claims_without_the_data_say_why_not(three, tmp_path, no_pictures):
    out = tmp_path / "results"
    assert invoke("reproduce", "figure2", *SMALL, "--out", out).exit_code in (0, 1)
    for path in three.iterdir():
        path.unlink()
    result = invoke("claims", "--out", out)
    assert result.exit_code == 2
    assert "figure2: 2 runs of 1,000 steps cannot be evaluated: no a9a" in result.stderr
    assert "nothing to evaluate under" in result.stderr
