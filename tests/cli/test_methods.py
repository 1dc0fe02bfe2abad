"""``heavystep methods`` lists what can be imported, with the arguments that there are."""

import inspect

import pytest
from typer.testing import CliRunner

import heavystep
from heavystep import optim
from heavystep.cli.app import app
from heavystep.cli.methods import beside
from heavystep.methods import METHODS
from heavystep.problems.variance_reduced import PUBLISHED

BESIDE = beside()
KINDS = {
    **{name: optim.optimizer_class(name) for name in METHODS},
    **{name: row.kind for name, row in BESIDE.items()},
}
NOT_METHODS = {"CapturedStep", "Recorder", "StepInfo"}


def test_every_optimizer_is_listed():
    shown = CliRunner().invoke(app, ["methods"])
    assert shown.exit_code == 0
    exported = {
        name
        for name in heavystep.__all__
        if inspect.isclass(getattr(heavystep, name)) and name not in NOT_METHODS
    }
    assert exported <= set(KINDS)
    assert all(name in shown.stdout for name in KINDS)
    assert "`" not in shown.stdout


@pytest.mark.parametrize("name", KINDS)
def test_arguments_with_their_defaults(name):
    shown = CliRunner().invoke(app, ["methods", name])
    assert shown.exit_code == 0, shown.output
    rows = [line for line in shown.stdout.splitlines() if line.startswith("│")]
    first = {line.split("│")[1].strip(): line.split("│")[2].strip() for line in rows}
    for argument, parameter in inspect.signature(KINDS[name]).parameters.items():
        required = parameter.default is inspect.Parameter.empty
        assert first[argument] == ("" if required else repr(parameter.default))


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_runs_in_simulation_only_says_how(name):
    shown = CliRunner().invoke(app, ["methods", name])
    call = f'simulate(VarianceReduced(problem), "{PUBLISHED[name]}", ...)'
    assert f"in simulation only: {call}" in shown.stdout
    assert "Jiang and Stich (2023)" in shown.stdout
    assert "not verified" in shown.stdout


NEAREST = {
    "SHBPolyack": "; nearest: SHBPolyak, SHBPolyakAdam",
    "alig": "; nearest: ALIG",
    "SHB-PS": "; nearest: SHBPolyak, SHBArmijo, SPS",  # its name in the paper
    "Diminish": "; nearest: Diminishing",
    "lbfgs": "",
}


@pytest.mark.parametrize("name", NEAREST)
def test_an_unknown_method(name):
    told = CliRunner().invoke(app, ["methods", name])
    assert told.exit_code == 2
    text = f"no method is named {name!r}{NEAREST[name]}; heavystep methods lists all"
    assert told.stderr == f"{text}\n"


def test_an_unknown_optimizer():
    with pytest.raises(ValueError, match="named 'MoMoo'; nearest: MoMo, MoMoAdam"):
        heavystep.create("MoMoo", [])
