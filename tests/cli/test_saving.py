"""``--save``: the tables of a benchmark as a file, with the machine and the date."""

import json
from datetime import date

import pytest
from rich.table import Table
from typer.testing import CliRunner

from heavystep.bench import growth, simulation
from heavystep.bench.simulation import Cost
from heavystep.bench.timing import machine
from heavystep.cli.app import app
from heavystep.cli.output import show
from heavystep.cli.saving import saving


@pytest.fixture
def measured(monkeypatch):
    monkeypatch.setattr(simulation, "simulation_costs", lambda: [Cost("a loop", 1234.0, 1.0)])
    monkeypatch.setattr(simulation, "scaling_costs", lambda: [Cost("more of it", 617.0, 0.5)])
    monkeypatch.setattr(growth, "growth_costs", list)


def test_a_command_saves_what_it_shows(measured, tmp_path):
    path = tmp_path / "simulation.json"
    result = CliRunner().invoke(app, ["bench", "simulation", "--save", str(path)])
    assert result.exit_code == 0, result.output
    saved = json.loads(path.read_text())
    assert saved["command"] == "heavystep bench simulation"
    assert date.fromisoformat(saved["date"])
    assert saved["machine"] == machine()
    assert [table["rows"] for table in saved["tables"]] == [
        [["a loop", "1234", "1.00"]], [["more of it", "617", "0.50"]], [],
    ]  # fmt: skip
    assert saved["tables"][0]["heading"] == ["cost", "ns", "ratio"]


def test_nothing_is_measured_for_a_file_without_a_folder(measured, tmp_path):
    path = tmp_path / "nowhere" / "simulation.json"
    result = CliRunner().invoke(app, ["bench", "simulation", "--save", str(path)])
    assert result.exit_code == 2
    assert "there is no folder" in result.stderr
    assert "a loop" not in result.stdout


def test_a_measurement_that_fails_leaves_no_file(tmp_path):
    def fails():
        with saving(tmp_path / "x.json", "a test"):
            show(Table("a column"))
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fails()
    assert not list(tmp_path.iterdir())
    with saving(tmp_path / "x.json", "a test"):
        show("no table")
    assert json.loads((tmp_path / "x.json").read_text())["tables"] == []  # not the one before
