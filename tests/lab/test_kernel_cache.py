"""Compiled kernels on disk: used again, made anew when damaged or when a source changed."""

import os
import subprocess
import sys

import pytest

from heavystep.lab import store
from heavystep.lab.simulation import compiling

SCRIPT = """
from heavystep.lab import simulate
from heavystep.problems import paper_least_squares
found = simulate(paper_least_squares(), "SHBPolyak", seeds=2, iterations=300)
print(found.metrics["gap_last"].tobytes().hex())
"""


def run(cache):
    """The numbers of a simulation in a new process with this cache."""
    environment = {**os.environ, "HEAVYSTEP_CACHE": str(cache)}
    return subprocess.check_output([sys.executable, "-c", SCRIPT], env=environment)


def truncated(path):
    path.write_bytes(path.read_bytes()[:-50])


def flipped(path):
    """One bit of the machine code."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def open_to_all(path):
    """What others may write is not loaded."""
    path.chmod(0o666)


@pytest.mark.slow
def test_what_is_damaged_or_others_may_write_is_made_anew(tmp_path):
    wanted = run(tmp_path)
    paths = list(tmp_path.rglob("*.kernel"))
    assert paths
    for damage in (None, truncated, flipped, open_to_all):
        for path in paths if damage else []:
            damage(path)
        before = [path.stat().st_mtime_ns for path in paths]
        assert run(tmp_path) == wanted, damage
        after = [path.stat().st_mtime_ns for path in paths]
        assert [new > old for new, old in zip(after, before, strict=True)] == [bool(damage)] * len(
            paths
        )
        assert all(path.stat().st_mode & 0o022 == 0 for path in paths)


def test_a_folder_that_cannot_be_written_stops_no_run(tmp_path):
    (tmp_path / "file").touch()
    assert run(tmp_path / "file" / "cache")


def test_kernels_are_keyed_by_all_their_sources(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "PACKAGE", tmp_path)
    monkeypatch.setenv("HEAVYSTEP_CACHE", str(tmp_path / "cache"))
    places = [tmp_path / name for name in ("rules/a.py", "momentum.py", "lab/simulation/b.py")]
    seen = []
    try:
        for number, place in enumerate([*places, *places]):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(f"x = {number}\n")
            if number >= len(places) - 1:
                store.hash_sources.cache_clear()
                seen.append(compiling.cache_folder())
    finally:
        store.hash_sources.cache_clear()
    assert len(set(seen)) == len(places) + 1
    assert seen[0].is_relative_to(tmp_path / "cache")
