"""Files: whole or not there, for nobody's eyes but those allowed, and nobody else's is touched."""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from heavystep import files, parquet
from heavystep.cli.app import app
from heavystep.data.cache import load_file
from heavystep.files import remove_leftovers, write_atomically, write_folder_atomically
from heavystep.sweeps.merge import merge
from heavystep.sweeps.output_folder import claim_folder, runs_folder

LEFT = f"{files.PREFIX}0123456789abcdef"
THEIRS = [
    ".env.template",
    ".htaccess.disabled",
    ".figure1.png.abc12_45",
    f"{LEFT}.txt",
    f"my{LEFT}",
]
"""Hidden files that only look like temporary ones."""
WAITS = """
import sys, time
from pathlib import Path
from heavystep.files import write_atomically, write_folder_atomically

def write(part):
    print("writing", flush=True)
    time.sleep(600)

{call}(Path(sys.argv[1]), write)
"""


@pytest.fixture
def private(monkeypatch):
    """A user whose files nobody else may read."""
    before = os.umask(0o077)
    yield
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def old(path):
    """Make a file older than any process."""
    os.utime(path, (0, 0))


def test_hidden_files_of_others_stay_however_old(tmp_path):
    claim_folder(tmp_path)
    folder = tmp_path / ".vscode.settings"
    folder.mkdir()
    (folder / "precious").write_text("mine")
    for place in (tmp_path, tmp_path / "figure1"):
        place.mkdir(exist_ok=True)
        for name in THEIRS:
            (place / name).write_text("mine")
            old(place / name)
    old(folder)
    claim_folder(tmp_path)
    for place in (tmp_path, tmp_path / "figure1"):
        assert {path.name for path in place.iterdir()} >= set(THEIRS)
    assert (folder / "precious").read_text() == "mine"


def test_a_link_with_such_a_name_is_not_followed(tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (tmp_path / LEFT).symlink_to(precious)
    remove_leftovers(tmp_path)
    assert precious.exists()


@pytest.mark.parametrize("call", ["write_atomically", "write_folder_atomically"])
def test_what_is_being_written_stays_and_what_was_killed_goes(call, tmp_path):
    target = tmp_path / "target"
    command = [sys.executable, "-c", WAITS.format(call=call), str(target)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdout.readline() == "writing\n"
            (part,) = tmp_path.iterdir()
            if part.is_dir():
                (part / "target" / "some").write_text("half")
            old(part)
            remove_leftovers(tmp_path)
            assert part.exists()
        finally:
            writer.send_signal(signal.SIGKILL)
            writer.wait()
    assert part.exists()
    remove_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_without_locks_age_decides(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "fcntl", None)
    left = tmp_path / LEFT
    left.write_text("half")
    remove_leftovers(tmp_path)
    assert left.exists()
    age = time.time() - files.ORPHANED - 1
    os.utime(left, (age, age))
    remove_leftovers(tmp_path)
    assert not left.exists()


def test_a_name_that_is_taken_for_a_leftover_is_exchanged(tmp_path, monkeypatch):
    """Between making a file and locking it somebody may sweep."""
    lock, swept = files._lock, []

    def sweeping(handle, *, wait):
        if wait and not swept:
            swept.append(True)
            remove_leftovers(tmp_path)
        return lock(handle, wait=wait)

    monkeypatch.setattr(files, "_lock", sweeping)
    write_atomically(tmp_path / "a", lambda part: part.write_text("whole"))
    assert swept
    assert (tmp_path / "a").read_text() == "whole"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_files_have_the_permissions_that_the_user_gives_to_files(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "a", lambda part: part.write_text(""))
        write_folder_atomically(tmp_path / "b", lambda folder: (folder / "c").write_text(""))
    finally:
        os.umask(before)
    assert mode(tmp_path / "a") == mode(tmp_path / "b" / "c") == 0o640
    assert mode(tmp_path / "b") == 0o750


def test_they_are_never_wider_while_they_are_written(tmp_path, private):
    seen = []
    write_atomically(tmp_path / "a", lambda part: seen.append(mode(part)))
    assert seen == [mode(tmp_path / "a")] == [0o600]


@pytest.mark.parametrize("beside", [True, False])
def test_what_is_kept_of_a_private_text_is_private(beside, tmp_path, monkeypatch):
    monkeypatch.setenv("HEAVYSTEP_CACHE", str(tmp_path / "home"))
    text = tmp_path / "data" / "patients"
    text.parent.mkdir()
    text.write_bytes(b"1 1:2\n-1 2:1\n")
    text.chmod(0o600)
    if not beside:
        text.with_name("patients.csr").write_text("somebody's")
    load_file(text)
    kept = text.with_name("patients.csr") if beside else next((tmp_path / "home").rglob("*.csr"))
    assert mode(kept) == 0o600


def test_results_are_as_private_as_the_user_is(tmp_path, private):
    claim_folder(tmp_path / "out")
    parquet.write(tmp_path / "out" / "a.parquet", "{}", {})
    assert {mode(path) for path in (tmp_path / "out").iterdir()} == {0o600}


def test_merged_runs_are_no_more_readable_than_they_were(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    claim_folder(one)
    run = runs_folder(one, "figure1") / "a.parquet"
    parquet.write(run, "{}", {})
    run.chmod(0o600)
    merge([one], other, print)
    assert mode(runs_folder(other, "figure1") / "a.parquet") == 0o600


def no_home(monkeypatch):
    for name in ("HOME", "HEAVYSTEP_CACHE", "HEAVYSTEP_DATA"):
        monkeypatch.delenv(name, raising=False)

    def nobody(self):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", nobody)
    monkeypatch.setattr(Path, "home", classmethod(nobody))


def test_without_a_home_directory_a_file_is_read_and_kept_beside(tmp_path, monkeypatch):
    no_home(monkeypatch)
    text = tmp_path / "a"
    text.write_bytes(b"1 1:2\n-1 2:1\n")
    assert load_file(text).rows.n == 2
    assert text.with_name("a.csr").exists()
    text.with_name("a.csr").write_text("somebody's")
    assert load_file(text).rows.n == 2


def test_without_a_home_directory_a_name_says_what_to_set(monkeypatch):
    no_home(monkeypatch)
    result = CliRunner().invoke(app, ["data", "list"])
    assert result.exit_code == 2
    assert "HEAVYSTEP_CACHE" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


COMMANDS = [
    ["reproduce", "figure1", "--quick", "--out"],
    ["claims", "--out"],
    ["store", "list", "--out"],
    ["report"],
    ["store", "merge"],
    ["compare", "--quick", "--problem"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_user_who_does_not_exist_is_one_line(command):
    result = CliRunner().invoke(app, [*command, "~nosuchuser/x"])
    assert result.exit_code == 2
    assert "~nosuchuser/x: there is no such home directory" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
