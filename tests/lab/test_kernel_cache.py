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
    command = [sys.executable, "-c", SCRIPT]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout


def kernels(cache):
    return {path: path.read_bytes() for path in cache.rglob("*.kernel")}


def flipped(content):
    """One bit of the machine code."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :]


DAMAGE = {
    "truncated": lambda content: content[: len(content) // 2],
    "flipped": flipped,
    "empty": lambda content: b"",
}


@pytest.mark.slow
def test_damage_stops_no_run_and_is_made_anew(tmp_path):
    wanted = run(tmp_path)
    good = kernels(tmp_path)
    assert good
    written = {path: path.stat().st_mtime_ns for path in good}
    assert run(tmp_path) == wanted
    assert {path: path.stat().st_mtime_ns for path in kernels(tmp_path)} == written  # read only
    for name, damage in DAMAGE.items():
        for path, content in good.items():
            path.write_bytes(damage(content))
        assert run(tmp_path) == wanted, name
        assert all(path.read_bytes() != damage(good[path]) for path in good), name


@pytest.mark.slow
def test_what_others_may_write_is_not_loaded(tmp_path):
    wanted = run(tmp_path)
    written = {path: path.stat().st_mtime_ns for path in kernels(tmp_path)}
    for path in written:
        path.chmod(0o666)
    assert run(tmp_path) == wanted
    assert all(path.stat().st_mtime_ns > time for path, time in written.items())
    assert all(path.stat().st_mode & 0o022 == 0 for path in written)


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
