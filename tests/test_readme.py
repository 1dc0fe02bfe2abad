"""The README does what it says: its examples run as printed."""

import re
import shlex
import subprocess
import sys

import pytest

from tests.helpers.places import ROOT

README = (ROOT / "README.md").read_text()
SHELL = [
    line
    for block in re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL)
    for line in block.splitlines()
    if line.startswith("python -c")
]


def test_python_blocks_run_one_after_another(capsys):
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    namespace, outputs = {}, []
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)
        outputs.append(capsys.readouterr().out)
    polyak, armijo, captured, averaged, bounded, *outputs = outputs
    logistic, promise, torch_run, section_5 = outputs
    assert float(re.match(r"loss (\S+), last step", polyak).group(1)) < 0.1
    assert int(armijo.split()[0]) >= 0
    assert float(re.match(r"loss (\S+)$", captured).group(1)) < 0.5
    assert float(re.match(r"loss at the average (\S+)$", averaged).group(1)) < 0.5
    bound, loss = map(float, re.match(r"bound (\S+) <= loss (\S+)$", bounded).groups())
    assert 0.3 < bound < loss
    assert float(re.match(r"accuracy (\S+), loss", logistic).group(1)) > 0.83
    assert re.match(
        r"F\(mean iterate\) - F\* <= 7\.55 in expectation; gamma_max < 3\.14e-05", promise
    )
    assert "estimate" in torch_run.splitlines()[0]
    assert "Lemma 1" in torch_run
    assert "estimated L" in torch_run
    for theorem in ("Theorem 1", "Theorem 2"):
        assert re.search(rf"^{theorem} .* yes$", section_5, flags=re.MULTILINE)
    assert "NO" not in torch_run + section_5


@pytest.mark.parametrize("command", SHELL, ids=range(len(SHELL)))
def test_shell_lines_run(command):
    assert len(SHELL) == 2
    _, *arguments = shlex.split(command)
    run = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)
    assert re.match(r"tensor\(\[[23]\.\d+, [23]\.\d+\]\)|tensor\(\[3\., 3\.\]\)", run.stdout), (
        run.stdout
    )


COMMANDS = re.findall(r"^heavystep (\S.*?)(?:\s+#.*)?$", README, flags=re.MULTILINE)


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


def test_the_loop_is_short():
    """The promise of the README: a training loop of about ten lines."""
    block = re.search(r"```python\n(.*?)```", README, flags=re.DOTALL).group(1)
    loop = block[block.index("opt = ") :].strip().splitlines()
    assert len(loop) <= 10
