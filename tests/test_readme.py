"""The README does what it says: its examples run as printed."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text()
SHELL = [
    line
    for block in re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL)
    for line in block.splitlines()
    if line.startswith("python -c")
]


def test_python_blocks_run_one_after_another(capsys):
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(blocks) == 2
    namespace = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)
    first, second = capsys.readouterr().out.splitlines()
    assert float(re.match(r"loss (\S+), last step", first).group(1)) < 0.1
    assert int(second.split()[0]) >= 0


@pytest.mark.parametrize("command", SHELL, ids=range(len(SHELL)))
def test_shell_lines_run(command):
    assert len(SHELL) == 2
    _, *arguments = shlex.split(command)
    run = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)
    assert re.match(r"tensor\(\[[23]\.\d+, [23]\.\d+\]\)|tensor\(\[3\., 3\.\]\)", run.stdout), (
        run.stdout
    )


def test_the_loop_is_short():
    """The promise of the README: a training loop of about ten lines."""
    block = re.search(r"```python\n(.*?)```", README, flags=re.DOTALL).group(1)
    loop = block[block.index("opt = ") :].strip().splitlines()
    assert len(loop) <= 10
