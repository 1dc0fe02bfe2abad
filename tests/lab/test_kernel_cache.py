"""Compiled kernels on disk: used again, made anew when damaged or when a source changed."""

import os
import subprocess
import sys

import pytest

from heavystep.lab import store
from heavystep.lab.simulation import compiling

SCRIPT = """
import time
from heavystep.lab import simulate
from heavystep.problems import paper_least_squares
begin = time.perf_counter()
found = simulate(paper_least_squares(), "SHBPolyak", seeds=2, iterations=300)
print(found.metrics["gap_last"].tobytes().hex(), time.perf_counter() - begin)
"""


def run(cache):
    """The numbers of a simulation, and its time, in a new process with this cache."""
    environment = {**os.environ, "HEAVYSTEP_CACHE": str(cache)}
    command = [sys.executable, "-c", SCRIPT]
    made = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    numbers, seconds = made.stdout.split()
    return numbers, float(seconds)


def kernels(cache):
    return sorted(cache.rglob("*.kernel"))


def truncated(content):
    return content[: len(content) // 2]


def flipped(content):
    """One bit of the machine code."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :]


DAMAGE = {"truncated": truncated, "flipped": flipped, "empty": lambda content: b""}


@pytest.mark.slow
def test_damage_stops_no_run_and_is_made_anew(tmp_path):
    wanted, compiling_time = run(tmp_path)
    good = {path: path.read_bytes() for path in kernels(tmp_path)}
    assert good
    numbers, loading_time = run(tmp_path)
    assert numbers == wanted
    assert loading_time < compiling_time
    assert {path: path.read_bytes() for path in kernels(tmp_path)} == good  # nothing was compiled
    for name, damage in DAMAGE.items():
        for path, content in good.items():
            path.write_bytes(damage(content))
        assert run(tmp_path)[0] == wanted, name
        for path in good:
            assert path.read_bytes() != damage(good[path]), name


@pytest.mark.slow
def test_what_others_may_write_is_not_loaded(tmp_path):
    wanted, _ = run(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in kernels(tmp_path)}
    for path in before:
        path.chmod(0o666)
    assert run(tmp_path)[0] == wanted
    assert all(path.stat().st_mtime_ns > before[path] for path in before)
    assert all(path.stat().st_mode & 0o022 == 0 for path in before)


def test_a_folder_that_cannot_be_written_stops_no_run(tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("")
    assert run(blocker / "cache")[0]


def test_kernels_are_keyed_by_all_their_sources(tmp_path, monkeypatch):
    for name in compiling.SOURCES:
        place = tmp_path / name if name.endswith(".py") else tmp_path / name / "one.py"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("x = 1\n")
    monkeypatch.setattr(store, "PACKAGE", tmp_path)
    monkeypatch.setenv("HEAVYSTEP_CACHE", str(tmp_path / "cache"))

    def folder():
        store.hash_sources.cache_clear()
        return compiling.cache_folder()

    try:
        seen = [folder()]
        assert folder() == seen[0]
        for place in ("rules/one.py", "momentum.py", "lab/simulation/two.py"):
            (tmp_path / place).write_text("x = 2\n")
            seen.append(folder())
        assert len(set(seen)) == 4
        assert str(seen[0]).startswith(str(tmp_path / "cache"))
    finally:
        store.hash_sources.cache_clear()
