"""``heavystep methods`` lists what can be imported, with the arguments that there are."""

import inspect

import pytest
from typer.testing import CliRunner

import heavystep
from heavystep.cli.app import app
from heavystep.cli.methods import SCHEDULERS
from heavystep.methods import METHODS

NAMES = (*METHODS, *SCHEDULERS)
NOT_METHODS = {"CapturedStep", "Recorder", "StepInfo"}


def test_every_optimizer_is_listed():
    shown = CliRunner().invoke(app, ["methods"])
    assert shown.exit_code == 0
    exported = {
        name
        for name in heavystep.__all__
        if inspect.isclass(getattr(heavystep, name)) and name not in NOT_METHODS
    }
    assert exported <= set(NAMES)
    assert all(name in shown.stdout for name in NAMES)
    assert all(getattr(heavystep.optim, name) for name in NAMES)
    assert "`" not in shown.stdout


@pytest.mark.parametrize("name", NAMES)
def test_arguments_with_their_defaults(name):
    shown = CliRunner().invoke(app, ["methods", name])
    assert shown.exit_code == 0, shown.output
    rows = [line for line in shown.stdout.splitlines() if line.startswith("│")]
    first = {line.split("│")[1].strip(): line.split("│")[2].strip() for line in rows}
    for argument, parameter in inspect.signature(getattr(heavystep.optim, name)).parameters.items():
        required = parameter.default is inspect.Parameter.empty
        assert first[argument] == ("" if required else repr(parameter.default))


def test_an_unknown_method():
    told = CliRunner().invoke(app, ["methods", "Adam"])
    assert told.exit_code == 2
    assert "method must be one of 'SHBPolyak', " in told.stderr
