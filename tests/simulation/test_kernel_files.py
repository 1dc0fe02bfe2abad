"""Compiled kernels on disk: never run when damaged or another's, and never in the way."""

import errno
import os
import stat
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from heavystep.simulation import kernel_cache

VALUES = np.arange(5.0)


def scaled_sum(values, factor):
    total = 0.0
    for value in values:
        total += factor * value
    return total


def fresh():
    """The kernel as a new process has it."""
    return kernel_cache.kernel(scaled_sum)


def works(kernel):
    return kernel(VALUES, 0.5) == 5.0


def from_disk(kernel):
    """Whether every call so far was answered from disk."""
    return not sum(kernel.stats.cache_misses.values())


@cache
def made():
    """The files of a kernel: names and contents."""
    assert works(fresh())
    return {path: path.read_bytes() for path in kernel_files()}


def kernel_files():
    return sorted(path for path in kernel_cache.cache_folder().rglob("*") if path.is_file())


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEAVYSTEP_CACHE", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(autouse=True)
def whole():
    """Every test finds the files whole."""
    before = made()
    for path in kernel_files():
        path.unlink()
    for path, content in before.items():
        path.write_bytes(content)
        path.chmod(0o600)


def flipped(at):
    def damage(content):
        place = int(at * (len(content) - 1))
        return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]

    return damage


DAMAGES = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "cut at the end": lambda content: content[:-1],
    "longer": lambda content: content + b"\0",
    "zeros": lambda content: bytes(len(content)),
    "text": lambda content: b"not a kernel\n",
    **{f"flipped at {at}": flipped(at) for at in (0, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 1)},
}


def test_a_kernel_is_compiled_once():
    again = fresh()
    assert works(again)
    assert from_disk(again)


@pytest.mark.parametrize("ending", [".index", ".code"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_what_is_damaged_is_made_anew(damage, ending):
    """A flipped bit in machine code would be another number, or the end of the process."""
    (path,) = (path for path in kernel_files() if path.suffix == ending)
    path.write_bytes(damage(path.read_bytes()))
    kernel = fresh()
    assert works(kernel)
    assert not from_disk(kernel)
    mended = fresh()
    assert works(mended)
    assert from_disk(mended)


def test_emptied_files_stop_nothing():
    """Every file of the cache at once, as a full disk may leave them."""
    for path in kernel_files():
        path.write_bytes(b"")
    assert works(fresh())


def test_code_under_the_wrong_key_is_not_run():
    """As if two processes had given one name to two kernels."""
    kernel = fresh()
    assert kernel(VALUES.astype(np.float32), 0.5) == 5.0
    assert kernel(np.arange(5), 0.5) == 5.0
    one, *others = (path for path in kernel_files() if path.suffix == ".code")
    for other in others:
        other.write_bytes(one.read_bytes())
    again = fresh()
    assert works(again)
    assert again(VALUES.astype(np.float32), 0.5) == 5.0
    assert again(np.arange(5), 0.5) == 5.0
    assert sum(again.stats.cache_hits.values()) == 1


def test_only_the_owner_may_read_and_write():
    for path in kernel_files():  # the permissions of these are not the package's
        path.unlink()
    kernel_cache.cache_folder().chmod(0o755)
    assert works(fresh())
    assert {stat.S_IMODE(path.stat().st_mode) for path in kernel_files()} == {0o600}
    assert stat.S_IMODE(kernel_cache.cache_folder().stat().st_mode) == 0o700


@pytest.mark.parametrize("writable", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_have_written_is_not_loaded(writable):
    for path in kernel_files():
        path.chmod(writable)
    kernel = fresh()
    assert works(kernel)
    assert not from_disk(kernel)


def test_a_file_of_another_user_is_not_loaded(monkeypatch):
    owner = kernel_files()[0].stat().st_uid
    for path in kernel_files():
        if owner == 0:  # root may give them away
            os.chown(path, 1234, -1)
    if owner:
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    kernel = fresh()
    assert works(kernel)
    assert not from_disk(kernel)


@pytest.mark.parametrize("name", ["write_bytes", "mkdir", "chmod"])
def test_a_full_or_closed_disk_fails_nothing(name, monkeypatch):
    for path in kernel_files():
        path.unlink()

    def full(*arguments, **named):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, name, full)
    kernel = fresh()
    assert works(kernel)
    monkeypatch.undo()


def test_without_a_folder_every_process_compiles_for_itself(monkeypatch, tmp_path):
    """Not beside the source either, where a change of a rule would go unnoticed."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEAVYSTEP_CACHE", str(tmp_path / "file" / "folder"))
    kernel = fresh()
    assert works(kernel)
    assert not from_disk(kernel)
    assert not list(Path(__file__).parent.rglob("*.nbi"))
