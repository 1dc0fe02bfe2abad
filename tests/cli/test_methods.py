"""``heavystep methods`` lists what can be imported, with the arguments that there are."""

import inspect

import pytest
from typer.testing import CliRunner

import heavystep
from heavystep.cli.app import app
from heavystep.cli.methods import kind_of
from heavystep.methods import METHODS, SCHEDULER

KINDS = {name: kind_of(name) for name in (*METHODS, SCHEDULER)}
NOT_METHODS = {"Average", "CapturedStep", "Recorder", "StepInfo"}


def test_every_optimizer_is_listed():
    shown = CliRunner().invoke(app, ["methods"])
    assert shown.exit_code == 0
    classes = {name for name in heavystep.__all__ if inspect.isclass(getattr(heavystep, name))}
    assert classes - NOT_METHODS <= set(KINDS)
    lines = shown.stdout.splitlines()
    assert {line.split()[0] for line in lines if line.strip()} >= set(KINDS)
    assert not set("`…") & set(shown.stdout)
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("name", KINDS)
def test_what_is_said_of_a_method_and_its_arguments(name):
    shown = CliRunner().invoke(app, ["methods", name])
    assert shown.exit_code == 0, shown.output
    rows = [line for line in shown.stdout.splitlines() if line.startswith("│")]
    first = {line.split("│")[1].strip(): line.split("│")[2].strip() for line in rows}
    for argument, parameter in inspect.signature(KINDS[name]).parameters.items():
        required = parameter.default is inspect.Parameter.empty
        assert first[argument] == ("" if required else repr(parameter.default))
    told = " ".join(shown.stdout.split())
    for row in {METHODS.get(name)} - {None}:
        said = (row.title, row.form.name, row.needs, row.evidence, row.guarantee, row.differs)
        assert all(text in told for text in (*said, row.reference))


NEAREST = {
    "alig": "; nearest: ALIG",
    "SHB-PS": "; nearest: SHBPolyak, SHBArmijo, SPS",  # its name in the paper
    "lbfgs": "",
}


@pytest.mark.parametrize("name", NEAREST)
def test_an_unknown_method(name):
    told = CliRunner().invoke(app, ["methods", name])
    assert told.exit_code == 2
    text = f"no method is named {name!r}{NEAREST[name]}; heavystep methods lists all"
    assert told.stderr == f"{text}\n"


def test_what_create_cannot_make():
    with pytest.raises(ValueError, match=r"Diminishing is not an optimizer, but .*\("):
        heavystep.create(SCHEDULER, [])
    with pytest.raises(ValueError, match="named 'MoMoo'; nearest: MoMo, MoMoAdam"):
        heavystep.create("MoMoo", [])
