"""Commands that are killed at random moments go on to the same bytes."""

import csv
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

KILLS = int(os.environ.get("HEAVYSTEP_KILLS", "3"))
"""Of each command; 14 of each are forty."""
SHELL = [sys.executable, "-m", "heavystep"]
SWEEP = """
import sys
from heavystep.lab import sweep
if __name__ == "__main__":
    methods = ["HeavyStep", "SLS", "SPS", "SHBPolyak"]
    sweep(["least squares", "noisy least squares", "cosine"], methods, iterations=200_000, seeds=2,
          jobs=1, out=sys.argv[2])
"""
COMMANDS = {
    "reproduce": [*SHELL, "reproduce", "figure1", "--seeds", "2", "--iterations", "40000"],
    "compare": [*SHELL, "compare", "--tasks", "toy-30,toy-110", "--seeds", "2", "--jobs", "1",
                "--methods", "AdamW,SGD,SHBPolyak:scaling=practical"],
    "sweep": [sys.executable, "-c", SWEEP],
}  # fmt: skip


def contents(out):
    """Everything in a folder, without the times of runs and what a kill left half written."""
    found = {}
    for path in sorted(out.rglob("[!.]*")):
        if path.name == "runs.csv":
            with path.open(newline="") as lines:
                found[path.name] = [{**line, "seconds": ""} for line in csv.DictReader(lines)]
        elif path.is_file() and path.name != "README.md":  # which names its command
            found[str(path.relative_to(out))] = path.read_bytes()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_killed_at_random_moments_it_goes_on_to_the_same_bytes(name, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    begin = time.monotonic()
    assert subprocess.run([*COMMANDS[name], "--out", whole], check=False, **quiet).returncode < 2
    seconds, rng, kills, finished = time.monotonic() - begin, np.random.default_rng(5), 0, 0
    while kills < KILLS:
        process = subprocess.Popen([*COMMANDS[name], "--out", killed], **quiet)
        time.sleep(rng.uniform(0.1, 0.9) * seconds)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
            process.wait()
        else:  # it was faster: compare, and begin again
            assert contents(killed) == contents(whole)
            shutil.rmtree(killed)
            finished, seconds = finished + 1, 0.7 * seconds
            assert finished < 3 * KILLS
    assert subprocess.run([*COMMANDS[name], "--out", killed], check=False, **quiet).returncode < 2
    assert contents(killed) == contents(whole)
    assert len(contents(whole)) >= 5
