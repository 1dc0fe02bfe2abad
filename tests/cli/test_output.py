"""What cannot be printed is one line on stderr."""

import os
import subprocess
import sys

import pytest

FULL = "/dev/full"


@pytest.mark.skipif(not os.path.exists(FULL), reason="there is no device that is always full")
@pytest.mark.parametrize("arguments", [["theory"], ["theory", "--help"], ["methods"]], ids=str)
def test_a_full_disk_is_one_line(arguments):
    with open(FULL, "w") as full:
        run = subprocess.run(
            [sys.executable, "-m", "heavystep", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert run.returncode in (1, 2)
    assert run.stderr == "output: No space left on device\n"
