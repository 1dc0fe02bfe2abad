"""Every Python block of every page runs as printed, and prints what the page says."""

import re
import shlex
import subprocess
import sys

import pytest

from tests.helpers.pages import DOCS, PAGES, blocks, name


def number(pattern, text):
    return float(re.search(pattern, text, re.MULTILINE).group(1))


def starts(printed):
    assert number(r"^loss (\S+), last step", printed) < 0.1
    assert number(r"^(\d+) trials", printed) >= 0
    assert number(r"^loss (\S+)$", printed) < 0.5


def follows_recipes(printed):
    assert number(r"^loss (\S+), last step", printed) < 0.5
    assert 0 < number(r"last step (\S+)$", printed) < 1
    assert number(r"^loss at the average (\S+)$", printed) < 0.5


def suggests(printed):
    assert "Use " in printed


def certifies(printed):
    promise = r"F\(mean iterate\) - F\* <= 7\.55 in expectation; gamma_max < 3\.14e-05"
    assert re.match(promise, printed)
    for theorem in ("Theorem 1", "Theorem 2"):
        assert re.search(rf"^{theorem} .* yes$", printed, flags=re.MULTILINE)
    assert "estimated L" in printed
    assert "NO" not in printed


def derives(printed):
    """Theorem A lets the default's steps stay, wants longer ones to fall, and the counterexample tells the rules apart."""
    assert number(r"^tau = 1.00: a_100 <= (\S+) a_99$", printed) > 1
    assert number(r"^tau = 1.80: a_100 <= (\S+) a_99$", printed) == 1
    assert number(r"^tau = 1.90: a_100 <= (\S+) a_99$", printed) < 1
    wrong = number(r"^SPS: F - F\* = (\S+) after", printed)
    assert number(r"^HeavyStep: F - F\* = (\S+) after", printed) < 0.1 * wrong


def simulates(printed):
    assert re.match(r"F - F\* after 2000 steps: \d\.\de-\d\d$", printed.splitlines()[0])


CHECKS = {
    "docs/start.md": starts,
    "docs/recipes.md": follows_recipes,
    "docs/metric.md": suggests,
    "docs/certify.md": certifies,
    "docs/how-it-works.md": derives,
    "docs/simulation.md": simulates,
    "docs/faq.md": lambda printed: printed == "1.0 True\n" or pytest.fail(printed),
    "docs/moving.md": lambda printed: None,
}
ELSEWHERE = {
    "README.md": "tests/test_readme.py",
    "docs/architecture.md": "tests/test_docs.py",
    **{name(page): "tests/integrations/test_pages.py" for page in (DOCS / "frameworks").iterdir()},
}


def test_every_page_with_code_is_run():
    assert {name(page) for page in PAGES if blocks(page, "python")} == {*CHECKS, *ELSEWHERE}


@pytest.mark.parametrize("page", CHECKS)
def test_python_blocks_run_one_after_another(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "page"}
    for block in blocks(DOCS.parent / page, "python"):
        exec(compile(block, page, "exec"), namespace)
    CHECKS[page](capsys.readouterr().out)


@pytest.mark.slow
def test_the_line_that_checks_an_installation():
    (line,) = [
        line
        for block in blocks(DOCS / "start.md", "sh")
        for line in block.splitlines()
        if line.startswith("python -c")
    ]
    _, *arguments = shlex.split(line)
    run = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)
    found = [float(each) for each in re.findall(r"\d\.\d*", run.stdout)]
    assert found == pytest.approx([3.0, 3.0], abs=0.05)


COMMANDS = [
    command
    for page in ("certify.md", "paper.md")
    for block in blocks(DOCS / page, "sh")
    for command in re.findall(r"^heavystep (\S.*?)(?:\s+#.*)?$", block, flags=re.MULTILINE)
]


@pytest.mark.slow
def test_commands_run_one_after_another(tmp_path):
    assert len(COMMANDS) == 6
    for command in COMMANDS:
        run = subprocess.run(
            [sys.executable, "-m", "heavystep", *shlex.split(command)],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )
        refused = "schedules" in command  # printed as an example of a refusal
        assert run.returncode == (2 if refused else 0), run.stderr
        assert ("beta_power > 1, got 1" in run.stderr) == refused
