"""``heavystep bench simulation``, which was called ``engine``."""

import pytest
from typer.testing import CliRunner

from heavystep.bench import growth, simulation
from heavystep.bench.growth import Growth
from heavystep.bench.simulation import Cost
from heavystep.cli.app import app


@pytest.fixture
def costs(monkeypatch):
    monkeypatch.setattr(simulation, "simulation_costs", lambda: [Cost("a loop", 1234.0, 1.0)])
    monkeypatch.setattr(simulation, "scaling_costs", lambda: [Cost("more of it", 617.0, 0.5)])
    rows = [Growth(30, 500, 2, 4, 777.0, 12_345, 67_890)]
    monkeypatch.setattr(growth, "growth_costs", lambda: rows)


@pytest.mark.parametrize("name", ["simulation", "engine"])
def test_both_names_measure(name, costs):
    result = CliRunner().invoke(app, ["bench", name])
    assert result.exit_code == 0, result.output
    for text in ("a loop", "1234", "more of it", "0.50", "777", "12.95", "12,345", "67,890"):
        assert text in result.stdout


def test_the_old_name_is_not_shown():
    shown = CliRunner().invoke(app, ["bench", "--help"]).stdout
    assert "simulation" in shown
    assert "engine" not in shown
