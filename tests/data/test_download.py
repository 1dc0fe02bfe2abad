"""Fetching from a server on this machine, whole, broken and hostile; ``heavystep data``."""

import bz2
import itertools
import socket

import pytest
from typer.testing import CliRunner

from heavystep.cli.app import app
from heavystep.data import catalogue, web
from heavystep.data.catalogue import CATALOGUE
from heavystep.data.cifar import CIFAR
from heavystep.data.download import fetch
from heavystep.data.text import TEXTS
from heavystep.data.web import SLACK
from tests.helpers.data_sets import TINY, TINY_TEXT, files_under
from tests.helpers.local_server import Handler, serving

PACKED = bz2.compress(TINY_TEXT)
MOST = TINY.text_bytes + TINY.n + SLACK


class Server(Handler):
    """Each path is a way to answer."""

    def answer(self, path):
        getattr(self, "answer_" + path.replace(".", "_"))()

    def answer_tiny_bz2(self):
        self.send(PACKED)

    def answer_plain(self):
        self.send(TINY_TEXT)

    def answer_windows(self):
        self.send(TINY_TEXT.replace(b"\n", b"\r\n"))

    def answer_no_length(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(PACKED)

    def answer_cut_off(self):
        self.send(PACKED[:20], length=len(PACKED))

    def answer_cut_off_silently(self):
        self.send(PACKED[:20])

    def answer_other_number(self):
        self.send(TINY_TEXT.replace(b"0.5", b"0.6"))

    def answer_page(self):
        self.send(b"<html>moved</html>")

    def answer_large(self):
        self.send(b"0" * (MOST + 1))

    def answer_endless(self):
        self.send_response(200)
        self.end_headers()
        try:
            while True:
                self.wfile.write(b"0" * 65536)
        except OSError:
            self.close_connection = True

    def answer_bomb(self):
        self.send(bz2.compress(b"0" * 50_000_000))

    def answer_nothing_there(self):
        self.send(b"no", status=404)

    def answer_elsewhere(self):
        self.send_response(302)
        self.send_header("Location", f"http://localhost:{self.server.server_port}/tiny.bz2")
        self.end_headers()

    def answer_silence(self):
        self.send_response(200)
        self.send_header("Content-Length", "100")
        self.end_headers()
        self.wfile.write(b"1")
        self.wfile.flush()
        self.server.stop.wait(20)


@pytest.fixture(scope="module")
def address():
    with serving(Server) as server:
        yield server.address


@pytest.mark.parametrize("path", ["tiny.bz2", "plain", "windows", "no_length"])
def test_a_good_file_is_put_in_place(address, folder, path):
    told = []
    got = fetch(TINY, lambda received, total: told.append((received, total)), address + path)
    assert got == folder / "tiny.bz2"
    assert files_under(folder) == ["tiny.bz2"]
    assert got.stat().st_mode & 0o777 == 0o644
    size = got.stat().st_size
    assert told == [(size, None if path == "no_length" else size)]


def test_the_folder_is_made(address, folder):
    folder.rmdir()
    assert fetch(TINY, url=address + "tiny.bz2").read_bytes() == PACKED


FAILURES = {
    "cut_off": (OSError, f"cut off after 20 of {len(PACKED)} bytes"),
    "cut_off_silently": (ValueError, "this bzip2 file is cut off"),
    "other_number": (ValueError, "is not the published tiny: the sha256 of its text"),
    "page": (ValueError, "is not the published tiny: 18 bytes of text, not 16"),
    "large": (ValueError, f"sends more than {MOST} bytes"),
    "endless": (ValueError, f"sends more than {MOST} bytes"),
    "bomb": (ValueError, f"unpacks to more than {MOST} bytes"),
    "nothing_there": (OSError, "the server says 404"),
    "elsewhere": (ValueError, "is not https"),
    "silence": (OSError, "timed out"),
}


@pytest.mark.parametrize("before", [[], ["tiny.bz2"]], ids=["nothing", "a file"])
@pytest.mark.parametrize("path", FAILURES)
def test_a_failure_leaves_everything_as_it_was(address, folder, monkeypatch, path, before):
    monkeypatch.setattr(web, "SECONDS", 0.3 if path == "silence" else 5.0)
    for name in before:
        (folder / name).write_bytes(b"what was there")
    kind, message = FAILURES[path]
    with pytest.raises(kind) as caught:
        fetch(TINY, url=address + path)
    assert message in str(caught.value)
    if kind is OSError:
        assert caught.value.filename == str(folder / "tiny.bz2")
        assert "put that file there" in caught.value.strerror
    assert files_under(folder) == before
    assert all((folder / name).read_bytes() == b"what was there" for name in before)


def test_where_a_server_sends_to_is_looked_at_before_it_is_asked(address, folder, monkeypatch):
    asked = []
    monkeypatch.setattr(Server, "answer_tiny_bz2", lambda self: asked.append(self.path))
    with pytest.raises(ValueError, match="is not https"):
        fetch(TINY, url=address + "elsewhere")
    assert asked == []


def test_a_download_that_would_never_end_is_given_up(address, folder, monkeypatch):
    """A byte now and then keeps a connection alive forever."""
    clock = itertools.count(0.0, 61.0)
    monkeypatch.setattr(web.time, "monotonic", lambda: next(clock))
    with pytest.raises(ValueError, match="sends less than 20000 bytes a second; stopped"):
        fetch(TINY, url=address + "tiny.bz2")
    assert files_under(folder) == []


def unused_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_without_a_network_one_line_says_what_to_do(folder):
    url = f"http://127.0.0.1:{unused_port()}/tiny.bz2"
    with pytest.raises(OSError, match="Connection refused") as caught:
        fetch(TINY, url=url)
    assert caught.value.filename == str(folder / "tiny.bz2")
    for part in (url, "put that file there", "HEAVYSTEP_DATA"):
        assert part in caught.value.strerror
    assert files_under(folder) == []


@pytest.mark.parametrize(
    "url", ["http://www.csie.ntu.edu.tw/a9a", "ftp://127.0.0.1/a9a", "file:///etc/hostname", "a9a"]
)
def test_only_https(folder, url):
    with pytest.raises(ValueError, match="is not https; nothing was fetched"):
        fetch(TINY, url=url)


def test_interrupted_it_leaves_nothing(address, folder):
    def interrupt(received, total):
        assert len(files_under(folder)) == 1
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(TINY, interrupt, address + "tiny.bz2")
    assert files_under(folder) == []


def test_a_folder_that_nobody_may_write_to(address, folder):
    folder.chmod(0o555)
    try:
        with pytest.raises(PermissionError) as caught:
            fetch(TINY, url=address + "tiny.bz2")
    finally:
        folder.chmod(0o755)
    assert caught.value.filename == str(folder)
    assert "set HEAVYSTEP_DATA" in caught.value.strerror


def invoke(*arguments):
    return CliRunner().invoke(app, ["data", *arguments])


@pytest.fixture
def page(address, folder, monkeypatch):
    """The data page is the server on this machine, and there is one data set."""
    monkeypatch.setattr(catalogue, "PAGE", address)
    for name in set(CATALOGUE) - {"tiny"}:
        monkeypatch.delitem(CATALOGUE, name)
    CIFAR.clear()
    TEXTS.clear()
    return folder


def test_fetch_then_verify_then_list(page):
    path = page / "tiny.bz2"
    listed = invoke("list")
    assert "not here" in listed.stdout
    fetched = invoke("fetch", "tiny")
    assert (fetched.exit_code, fetched.stdout) == (0, f"tiny: fetched, {path}\n")
    assert fetched.stderr == ""
    again = invoke("fetch", "all")
    assert (again.exit_code, again.stdout) == (0, f"tiny: already here, {path}\n")
    for names in ([], ["tiny"]):
        checked = invoke("verify", *names)
        assert (checked.exit_code, checked.stdout) == (0, f"tiny: ok, {path}\n")
    listed = invoke("list")
    assert listed.exit_code == 0
    assert str(path) in listed.stdout
    assert "not here" not in listed.stdout


def test_a_damaged_file_is_told_and_fetched_again(page):
    (page / "tiny.bz2").write_bytes(PACKED[:-1])
    checked = invoke("verify")
    assert checked.exit_code == 1
    assert checked.stdout.startswith("tiny: damaged, ")
    fetched = invoke("fetch", "tiny")
    assert fetched.exit_code == 0
    assert "cut off; fetching it again" in fetched.stderr
    assert invoke("verify").exit_code == 0


def test_a_damaged_file_that_would_hide_the_new_one(page):
    (page / "tiny").write_bytes(b"1\n")
    fetched = invoke("fetch", "tiny")
    assert fetched.exit_code == 2
    assert fetched.stderr.strip().endswith("; remove it, then fetch again")
    assert files_under(page) == ["tiny"]


def test_what_is_missing(page, monkeypatch):
    monkeypatch.setitem(CATALOGUE, "w8a", catalogue._ALL[-1])
    for names in ([], ["tiny"], ["w8a", "tiny"]):
        checked = invoke("verify", *names)
        assert checked.exit_code == 2
        assert "tiny: missing\n" in checked.stdout
        assert "heavystep data fetch" in checked.stderr
        assert len(checked.stderr.splitlines()) == 1
    (page / "tiny").write_bytes(TINY_TEXT)
    assert invoke("verify").exit_code == 0  # the others were not asked for
    assert invoke("verify", "tiny").exit_code == 0
    assert invoke("verify", "tiny", "w8a").exit_code == 2


@pytest.mark.parametrize("command", ["fetch", "verify"])
def test_an_unknown_name_is_one_line_with_the_names(command):
    result = invoke(command, "a10a")
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert all(name in result.stderr for name in [*CATALOGUE, *CIFAR, "got 'a10a'"])


def test_offline_is_one_line(page, monkeypatch):
    monkeypatch.setattr(catalogue, "PAGE", f"http://127.0.0.1:{unused_port()}/")
    result = invoke("fetch", "tiny")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert "Connection refused" in result.stderr


def test_fetch_needs_a_name():
    assert invoke("fetch").exit_code == 2
