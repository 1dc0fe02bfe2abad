"""The shell: help that is there at once and is not cut, completion, and names that are misspelt."""

import json
import subprocess
import sys
import tomllib

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from heavystep.cli import common
from heavystep.cli import reproduce as of_figures
from heavystep.cli.app import app
from heavystep.extras import install
from heavystep.lab.data import SETS
from heavystep.lab.engines import ENGINES
from heavystep.lab.figures.figure import FIGURES
from heavystep.lab.training.trainer import DEVICES
from tests.helpers.places import ROOT

SLOW = ("torch", "scipy", "numba", "pyarrow", "matplotlib")
TWO_WORDS = [["bench", "step"], ["data", "fetch"], ["theory", "convex"], ["theory", "advice"]]


def groups(words=()):
    """All groups of commands with the words that call them."""
    found = get_command(app)
    for word in words:
        found = found.get_command(None, word)
    if hasattr(found, "list_commands"):
        yield words, found
        for name in found.list_commands(None):
            yield from groups((*words, name))


COMMANDS = get_command(app).list_commands(None)
HELPS = [[], *([name] for name in COMMANDS), *TWO_WORDS]
COMPLETIONS = [
    ([], "", COMMANDS),
    (["reproduce"], "fig", list(FIGURES)),
    (["reproduce", "figure1"], "--qu", ["--quick"]),
    (["methods"], "SHBP", ["SHBPolyak"]),
    (["data", "fetch"], "", list(SETS)),
    (["compare", "--methods"], "SPS,SHBA", ["SPS,SHBArmijo"]),
    (["compare", "--tasks"], "mlp,reg", ["mlp,regression"]),
    (["reproduce", "figure3", "--device"], "", list(DEVICES)),
]  # fmt: skip
ONE_AFTER_ANOTHER = """
import contextlib, io, json, os, sys
blocked, lines = json.loads(sys.argv[1])
sys.modules |= dict.fromkeys(blocked)
from heavystep.cli import main
found = []
for words, environment in lines:
    sys.argv, shown = ["heavystep", *words], io.StringIO()
    os.environ |= environment
    with contextlib.redirect_stdout(shown):
        try:
            main()
        except (Exception, SystemExit) as end:
            found.append((repr(end), shown.getvalue()))
print(json.dumps(found))
"""


def tab(words, incomplete):
    """What the shell says when the TAB key is pressed."""
    line, count = " ".join(["heavystep", *words, incomplete]), str(len(words) + 1)
    return {"_HEAVYSTEP_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": count}


def process(code, given):
    command = [sys.executable, "-c", code, json.dumps(given)]
    return subprocess.run(command, capture_output=True, text=True, check=True)


@pytest.fixture(scope="module")
def shown():
    """How calls end and what they print, in a process where nothing slow can be imported."""
    lines = [([*words, "--help"], {}) for words in HELPS]
    lines += [([], tab(words, incomplete)) for words, incomplete, _ in COMPLETIONS]
    run = process(ONE_AFTER_ANOTHER, [SLOW, lines])
    assert run.stderr == ""
    return json.loads(run.stdout)


@pytest.mark.parametrize("place", range(len(HELPS)), ids=map(" ".join, HELPS))
def test_help_waits_for_nothing_slow(place, shown):
    end, text = shown[place]
    assert end == "SystemExit(0)"
    assert text.startswith(f"Usage: heavystep {' '.join(HELPS[place])}".rstrip())


@pytest.mark.parametrize("place", range(len(COMPLETIONS)))
def test_completion(place, shown):
    _, incomplete, among = COMPLETIONS[place]
    found = shown[len(HELPS) + place][1].split()
    assert found
    assert set(found) >= set(among)
    assert all(each.startswith(incomplete) for each in found)


def test_no_summary_is_cut():
    assert len(list(groups())) == 4
    for words, group in groups():
        text = CliRunner().invoke(app, [*words, "--help"]).stdout
        for name in group.list_commands(None):
            command = group.get_command(None, name)
            assert (f"\n  {name} " in text) != command.hidden, name
            summary = " ".join((command.help or "").partition("\n\n")[0].split()).rstrip(".")
            assert summary in " ".join(text.split()), name


def test_names_that_are_written_down_for_completion():
    assert set(of_figures.FIGURES) == set(FIGURES)
    assert set(common.ENGINES) == set(ENGINES)
    assert set(common.DEVICES) == set(DEVICES)


MISSPELT = [
    (["reprodcue"], "Did you mean 'reproduce'?"),
    (["reproduce", "figur1"], "did you mean 'figure1'?"),
    (["reproduce", "figure1", "--quik"], "--quick"),
    (["reproduce", "figure1", "--engine", "locl"], "did you mean 'local'?"),
    (["methods", "SHBPolyk"], "nearest: SHBPolyak"),
    (["data", "verify", "mushroms"], "did you mean 'mushrooms'?"),
    (["compare", "--tasks", "charlmm"], "did you mean 'charlm'?"),
    (["compare", "--tasks", ","], "--tasks names none"),
    (["compare", "--methods", ","], "--methods names none"),
    (["bench", "step", "--device", "tpu"], "device must be one of 'cpu', 'cuda', got 'tpu'"),
]


@pytest.mark.parametrize(("words", "hint"), MISSPELT, ids=lambda value: str(value[-1]))
def test_misspelt_names(words, hint):
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert hint in result.stderr
    assert not result.stdout


@pytest.mark.parametrize("blocked", ["pyarrow", "matplotlib", "numba"])
def test_a_missing_package_is_named_with_commands_that_install_it(blocked):
    words = ["reproduce", "figure1", "--quick", "--out", "nowhere"]
    run = process(ONE_AFTER_ANOTHER, [[blocked], [(words, {})]])
    assert json.loads(run.stdout)[0][0] == "SystemExit(2)"
    assert run.stderr == f"this command needs {blocked}: {install('lab')}\n"


NEEDS = {
    "heavystep.lab.simulate": ("numba", "lab"),
    "heavystep.lab.sweep": ("pyarrow", "lab"),
    "heavystep.lab.reproduce": ("matplotlib", "lab"),
    "heavystep.plot_steps": ("matplotlib", "lab"),
    "heavystep.integrations.lightning": ("lightning", "lightning"),
    "heavystep.integrations.accelerate": ("accelerate", "accelerate"),
}
WITHOUT = """
import json, sys
from heavystep.extras import MissingExtraError
for place, (blocked, _) in json.loads(sys.argv[1]).items():
    package, _, name = place.rpartition(".")
    sys.modules[blocked] = None
    try:
        exec(f"from {package} import {name}")
    except MissingExtraError as error:
        print(error)
    del sys.modules[blocked]
"""


def test_an_import_names_its_extra():
    """None is imported before the next one is asked for."""
    lines = process(WITHOUT, NEEDS).stdout.splitlines()
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for line, (place, (blocked, extra)) in zip(lines, NEEDS.items(), strict=True):
        assert line == f"{place} needs {blocked}: {install(extra)}"
        assert {extra, "transformers"} <= set(known)
