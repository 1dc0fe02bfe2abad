"""What stands around the code is in step with it: changelog, citation, hooks, targets, package."""

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
import yaml

import heavystep
from tests.helpers.places import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_changelog_begins_with_this_version():
    text = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(r"^## (\S+)", text, flags=re.MULTILINE).group(1) == heavystep.__version__


def test_the_version_is_written_once():
    assert "version" in PROJECT["dynamic"]
    assert "version" not in yaml.safe_load((ROOT / "CITATION.cff").read_text())


def test_the_citation_names_the_paper():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["license"] == PROJECT["license"]
    (paper,) = citation["references"]
    assert [author["family-names"] for author in paper["authors"]] == ["Zhang", "Shi", "Gu"]


def test_addresses_are_addresses():
    """The project has no public place yet, but a reader of the package finds the paper."""
    assert "Paper" in PROJECT["urls"]
    for name, address in PROJECT["urls"].items():
        assert len(name) <= 32  # what indexes show
        assert re.fullmatch(r"https://[^\s]+", address), name


def test_every_target_is_explained():
    makefile = (ROOT / "Makefile").read_text()
    targets = re.search(r"^\.PHONY: (.*)$", makefile, flags=re.MULTILINE).group(1).split()
    assert set(re.findall(r"^([a-z][a-z-]*):", makefile, flags=re.MULTILINE)) == set(targets)
    run = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for target in targets:
        assert f"make {target}" in run.stdout, target


def test_hooks_and_the_workflow_run_what_make_runs():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repo["repo"] for repo in hooks] == ["local"]  # nothing is downloaded
    tools = {hook["entry"].split()[0] for repo in hooks for hook in repo["hooks"]}
    assert tools == {".venv/bin/ruff", ".venv/bin/mypy"}
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())
    steps = workflow["jobs"]["test"]["steps"]
    assert "make test" in [step.get("run") for step in steps]


def run(*words, **options):
    """A command that must succeed, and what it printed."""
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """The interpreter of an environment with nothing but the wheel that the sdist makes."""
    folder = tmp_path_factory.mktemp("package")
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, cwd=ROOT)
    (sdist,) = folder.glob("*.tar.gz")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    offline = ("--no-index", "--no-deps", "--quiet")
    run(*pip, "wheel", sdist, *offline, "--no-build-isolation", "-w", folder)
    (wheel,) = folder.glob("*.whl")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "env")
    python = folder / "env" / "bin" / "python"
    run(*pip, "--python", python, "install", *offline, wheel)
    return python


@pytest.mark.slow
def test_the_wheel_of_the_sdist_works_in_an_empty_environment(empty, tmp_path):
    # torch and numpy are found beside it: names on PYTHONPATH bring no editable installs along.
    around = {**os.environ, "PYTHONPATH": sysconfig.get_paths()["purelib"]}
    code = """
import torch, heavystep
theta = torch.zeros(2, requires_grad=True)
opt = heavystep.SHBPolyak([theta])
for _ in range(200):
    opt.step(lambda: ((theta - 3) ** 2).sum())
assert theta.detach().allclose(torch.full((2,), 3.0), atol=0.5), theta
print(heavystep.__file__)
"""
    place = run(empty, "-c", code, env=around, cwd=tmp_path).strip()
    assert Path(place).is_relative_to(empty.parents[1])
    command = empty.parent / "heavystep"
    assert run(command, "--version", env=around, cwd=tmp_path).strip() == heavystep.__version__
    assert "SHBPolyak" in run(command, "methods", env=around, cwd=tmp_path)
    report = "import heavystep.report.page as page; print(page.__file__)"
    folder = Path(run(empty, "-c", report, env=around, cwd=tmp_path).strip()).parent
    assert {path.suffix for path in (folder / "assets").iterdir()} == {".js", ".css"}
    assert (folder.parent / "py.typed").exists()
