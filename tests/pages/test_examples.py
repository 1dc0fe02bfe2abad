"""Every Python block of every page runs as printed, and prints what the page says."""

import re
import shlex
import subprocess
import sys

import pytest

from tests.helpers.pages import DOCS, PAGES, blocks, name


def trains(outputs):
    trained, search, captured = outputs
    assert float(re.match(r"loss (\S+), last step", trained).group(1)) < 0.1
    assert int(search.split()[0]) >= 0
    assert float(re.match(r"loss (\S+)$", captured).group(1)) < 0.5


def averages(outputs):
    assert float(re.match(r"loss at the average (\S+)$", outputs[-1]).group(1)) < 0.5


def has_bounds(outputs):
    bound, loss = map(float, re.match(r"bound (\S+) <= loss (\S+)$", outputs[-1]).groups())
    assert 0.3 < bound < loss



def certifies(outputs):
    promise, torch_run, section_5 = outputs
    assert re.match(
        r"F\(mean iterate\) - F\* <= 7\.55 in expectation; gamma_max < 3\.14e-05", promise
    )
    assert "estimate" in torch_run.splitlines()[0]
    assert "Lemma 1" in torch_run
    assert "estimated L" in torch_run
    for theorem in ("Theorem 1", "Theorem 2"):
        assert re.search(rf"^{theorem} .* yes$", section_5, flags=re.MULTILINE)
    assert "NO" not in torch_run + section_5


def simulates(outputs):
    assert re.match(r"F - F\* after 2000 steps: \d\.\de-\d\d$", outputs[0])


def follows_recipes(outputs):
    trained, *_ = filter(None, outputs)
    loss, step = map(float, re.match(r"loss (\S+), last step (\S+)$", trained).groups())
    assert loss < 0.5
    assert 0 < step < 1


def answers(outputs):
    assert outputs[0] == "1.0 True\n"


CHECKS = {
    "docs/recipes.md": follows_recipes,
    "docs/faq.md": answers,
    "docs/moving.md": lambda outputs: None,
    "docs/start.md": trains,
    "docs/averaging.md": averages,
    "docs/bounds.md": has_bounds,
    "docs/promises.md": certifies,
    "docs/simulation.md": simulates,
    "docs/choosing.md": lambda outputs: None,
}
ELSEWHERE = {
    "README.md": "tests/test_readme.py",
    "docs/architecture.md": "tests/test_docs.py",
    "docs/sweeps.md": "tests/sweeps/test_page.py",
    "docs/suggest.md": "tests/suggestions/test_suggest.py",
    "docs/seeing.md": "tests/pictures/test_steps.py",
    **{name(page): "tests/integrations/test_pages.py" for page in (DOCS / "frameworks").iterdir()},
}


def test_every_page_with_code_is_run():
    assert {name(page) for page in PAGES if blocks(page, "python")} == {*CHECKS, *ELSEWHERE}


@pytest.mark.parametrize("page", CHECKS)
def test_python_blocks_run_one_after_another(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace, outputs = {"__name__": "page"}, []
    for block in blocks(DOCS.parent / page, "python"):
        exec(compile(block, page, "exec"), namespace)
        outputs.append(capsys.readouterr().out)
    CHECKS[page](outputs)


SHELL = [
    line
    for block in blocks(DOCS / "start.md", "sh")
    for line in block.splitlines()
    if line.startswith("python -c")
]


@pytest.mark.slow
@pytest.mark.parametrize("command", SHELL, ids=range(len(SHELL)))
def test_shell_lines_run(command):
    assert len(SHELL) == 2
    _, *arguments = shlex.split(command)
    run = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)
    assert re.match(r"tensor\(\[[23]\.\d+, [23]\.\d+\]\)|tensor\(\[3\., 3\.\]\)", run.stdout), (
        run.stdout
    )


COMMANDS = [
    command
    for page in ("promises.md", "reproducing.md")
    for block in blocks(DOCS / page, "sh")
    for command in re.findall(r"^heavystep (\S.*?)(?:\s+#.*)?$", block, flags=re.MULTILINE)
]


@pytest.mark.slow
def test_commands_run_one_after_another(tmp_path):
    assert len(COMMANDS) == 8
    for command in COMMANDS:
        check_command(command, tmp_path)


def check_command(command, folder):
    run = subprocess.run(
        [sys.executable, "-m", "heavystep", *shlex.split(command)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    refused = "schedules" in command  # printed as an example of a refusal
    assert run.returncode == (2 if refused else 0), run.stderr
    assert ("beta_power > 1, got 1" in run.stderr) == refused
