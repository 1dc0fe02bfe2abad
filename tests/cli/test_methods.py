"""``heavystep methods`` lists what can be imported, with the arguments that there are."""

import inspect
import json
from itertools import pairwise

import pytest
from typer.testing import CliRunner

import heavystep
from heavystep import optimizers
from heavystep.cli.app import app
from heavystep.cli.methods import LIST, beside
from heavystep.methods import METHODS
from heavystep.problems.variance_reduced import PUBLISHED

BESIDE = beside()
KINDS = {
    **{name: optimizers.optimizer_class(name) for name in METHODS},
    **{name: row.kind for name, row in BESIDE.items()},
}
NOT_METHODS = {"Average", "CapturedStep", "Recorder", "StepInfo"}


def test_every_optimizer_is_listed():
    shown = CliRunner().invoke(app, ["methods"])
    assert shown.exit_code == 0
    exported = {
        name
        for name in heavystep.__all__
        if inspect.isclass(getattr(heavystep, name)) and name not in NOT_METHODS
    }
    assert exported <= set(KINDS)
    lines = shown.stdout.splitlines()
    assert {line.split()[0] for line in lines if line.strip()} >= set(KINDS)
    assert "`" not in shown.stdout
    assert "…" not in shown.stdout
    assert max(map(len, lines)) <= 100


def listed(text):
    """The cells of the list, by the name in their row, each in one line."""
    head, _, *lines = (line for line in text.splitlines() if line[:1] == " " and line.strip())
    places = [head.index(title) for title in LIST]
    rows = []
    for line in lines:
        cells = [line[slice(*ends)].strip() for ends in pairwise((*places, None))]
        rows += [[]] if cells[0] else []
        rows[-1].append(cells)
    joined = ([" ".join(filter(None, cell)) for cell in zip(*row, strict=True)] for row in rows)
    return {name: others for name, *others in joined}


def test_the_list_says_what_a_method_needs_and_what_is_known_of_it():
    rows = listed(CliRunner().invoke(app, ["methods"]).stdout)
    assert list(rows) == list(KINDS)
    for name, method in METHODS.items():
        summary, needs, guarantee, evidence = rows[name]
        assert (summary, evidence) == (method.summary, method.source)
        assert guarantee == (method.guarantee.split(":")[0] if method.guarantee else "none")
        assert method.needs.startswith(needs.split(", ")[0])
    assert rows["MBCG"][1] == "closure, batches that overlap"


def test_everything_for_a_program():
    shown = CliRunner().invoke(app, ["methods", "--json"])
    assert shown.exit_code == 0
    found = {entry["name"]: entry for entry in json.loads(shown.stdout)}
    assert list(found) == list(KINDS)
    for name, entry in found.items():
        arguments = inspect.signature(KINDS[name]).parameters
        assert list(entry["arguments"]) == list(arguments)
        for argument, parameter in arguments.items():
            required = parameter.default is inspect.Parameter.empty
            default = {} if required else {"default": parameter.default}
            assert {**entry["arguments"][argument], "meaning": ""} == {"meaning": "", **default}
    one = json.loads(CliRunner().invoke(app, ["methods", "MBCG", "--json"]).stdout)
    assert one == [found["MBCG"]]
    assert one[0]["differs"] == METHODS["MBCG"].differs
    assert one[0]["momentum_form"] == "torch buffer"


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
    call = f'lab.simulate(VarianceReduced(problem), "{PUBLISHED[name]}", ...)'
    assert "in simulation only" in shown.stdout
    assert call in shown.stdout
    assert "Jiang and Stich (2023)" in shown.stdout
    assert shown.stdout.startswith("Not verified.")


@pytest.mark.parametrize("name", METHODS)
def test_what_is_said_of_a_method(name):
    told = " ".join(CliRunner().invoke(app, ["methods", name]).stdout.split())
    row = METHODS[name]
    assert all(text in told for text in (row.title, row.form.name, row.needs, row.evidence))
    assert all(text in told for text in (row.guarantee, row.differs, row.reference))


NEAREST = {
    "SHBPolyack": "; nearest: SHBPolyak, SFPolyak",
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


@pytest.mark.parametrize("name", BESIDE)
def test_what_is_listed_and_no_optimizer_says_what_it_is(name):
    """And its arguments are told without markup."""
    with pytest.raises(ValueError, match=f"{name} is not an optimizer, but .*\\("):
        heavystep.create(name, [])
    assert "`" not in CliRunner().invoke(app, ["methods", name]).stdout


def test_an_unknown_optimizer():
    with pytest.raises(ValueError, match="named 'MoMoo'; nearest: MoMo, MoMoAdam"):
        heavystep.create("MoMoo", [])
