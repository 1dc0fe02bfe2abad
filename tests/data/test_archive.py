"""Archives of images from a server on this machine, whole, broken and hostile; ``heavystep data``."""

import errno
import gzip
import io
import os
import re
import tarfile

import pytest
from typer.testing import CliRunner

from heavystep import files
from heavystep.cli.app import app
from heavystep.data import archive, catalogue, cifar
from heavystep.data.archive import fetch
from heavystep.data.catalogue import CATALOGUE
from heavystep.data.cifar import CIFAR, folder_of
from heavystep.data.text import TEXTS
from heavystep.data.web import SLACK
from tests.helpers import tiny_cifar
from tests.helpers.data_sets import TINY_TEXT, VERSE, files_under, tiny_verse
from tests.helpers.local_server import Handler, serving

FOLDERS = {"cifar10": "cifar-10-batches-bin", "cifar100": "cifar-100-binary"}
ENTRY, CONTENTS = tiny_cifar.tiny("cifar10")
FILES = {f"{FOLDERS['cifar10']}/{name}": content for name, content in CONTENTS.items()}
LAST = list(FILES)[-1]
MOST = sum(map(len, FILES.values())) + SLACK


class Server(Handler):
    """Each test says what there is."""

    def answer(self, path):
        body, options = self.server.answers.get(path, (b"no", {"status": 404}))
        self.send(body, **options)


@pytest.fixture(scope="module")
def server():
    with serving(Server) as server:
        yield server


@pytest.fixture
def publish(server):
    """Offer bytes under a name; its address comes back."""
    server.answers = {}

    def offer(body, path="cifar-10-binary.tar.gz", **options):
        server.answers[path] = (body, options)
        return server.address + path

    return offer


@pytest.fixture
def data(folder, monkeypatch):
    """The data folder; CIFAR-10 has a few images."""
    monkeypatch.setitem(CIFAR, "cifar10", ENTRY)
    folder.rmdir()
    return folder.parent


def member(name, **attributes):
    entry = tarfile.TarInfo(name)
    for key, value in attributes.items():
        setattr(entry, key, value)
    return entry


def packed(files=FILES, first=(), last=(), pack=gzip.compress):
    """An archive of files, with members without content before and after them."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for entry in first:
            tar.addfile(entry)
        for name, content in files.items():
            tar.addfile(member(name, size=len(content)), io.BytesIO(content))
        for entry in last:
            tar.addfile(entry)
    return pack(stream.getvalue())


def changed(name, content):
    return {**FILES, name: content}


def without(*names):
    return {name: content for name, content in FILES.items() if name not in names}


def assert_whole(folder):
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == CONTENTS


EXTRAS = {
    "cifar-10-batches-bin/readme.html": b"<html>",
    "cifar-10-batches-bin/batches.meta.txt": b"",
}


@pytest.mark.parametrize("pack", [gzip.compress, bytes], ids=["gzip", "plain"])
def test_the_expected_files_are_put_in_place_and_no_others(publish, data, pack):
    told = []
    top = member("cifar-10-batches-bin", type=tarfile.DIRTYPE, mode=0o755)
    body = packed({**EXTRAS, **FILES}, first=[top], pack=pack)
    got = fetch(ENTRY, lambda received, total: told.append((received, total)), publish(body))
    assert got == data / "cifar-10-batches-bin"
    assert_whole(got)
    assert [path.name for path in data.iterdir()] == [got.name]
    assert told[-1] == (len(body), len(body))
    before = os.umask(0)
    os.umask(before)
    assert got.stat().st_mode & 0o777 == 0o777 & ~before
    assert all(path.stat().st_mode & 0o777 == 0o666 & ~before for path in got.iterdir())


def test_the_first_member_of_a_name_counts(publish, data):
    twice = member(LAST, type=tarfile.SYMTYPE, linkname="/etc/passwd")
    assert_whole(fetch(ENTRY, url=publish(packed(last=[twice]))))


def test_paths_that_lead_elsewhere_are_passed_over(publish, data, tmp_path):
    outside = tmp_path / "outside"
    evil = {
        str(outside): b"absolute",
        "../outside": b"up",
        "cifar-10-batches-bin/../../outside": b"down and up",
        "cifar-10-batches-bin/sub/test_batch.bin": b"below",
        "test_batch.bin": b"above",
    }
    link = member("cifar-10-batches-bin/way", type=tarfile.SYMTYPE, linkname=str(tmp_path))
    through = {"cifar-10-batches-bin/way/outside": b"through a link"}
    assert_whole(fetch(ENTRY, url=publish(packed({**evil, **through, **FILES}, first=[link]))))
    assert [path.name for path in data.iterdir()] == ["cifar-10-batches-bin"]
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def kind(type_, **attributes):
    """The archive in which the last file is of another kind."""
    return packed(without(LAST), last=[member(LAST, type=type_, **attributes)])


def flipped(content):
    return content[:-1] + bytes([content[-1] ^ 1])


WHOLE = packed()
NO_LAST = f"has no {LAST}"
NOT_PLAIN = "is not a plain file"
FAILURES = {
    "symbolic link": (kind(tarfile.SYMTYPE, linkname="/etc/hostname"), NOT_PLAIN),
    "hard link": (kind(tarfile.LNKTYPE, linkname=next(iter(FILES))), NOT_PLAIN),
    "pipe": (kind(tarfile.FIFOTYPE), NOT_PLAIN),
    "folder": (kind(tarfile.DIRTYPE), NOT_PLAIN),
    "absolute path": (packed({**without(LAST), f"/{LAST}": FILES[LAST]}), NO_LAST),
    "path upwards": (packed({**without(LAST), f"x/../{LAST}": FILES[LAST]}), NO_LAST),
    "missing file": (packed(without(LAST)), NO_LAST),
    "other pixel": (packed(changed(LAST, flipped(FILES[LAST]))), "its sha256 is"),
    "short file": (
        packed(changed(LAST, FILES[LAST][:-1])),
        f"{len(FILES[LAST]) - 1} bytes, not {len(FILES[LAST])}",
    ),
    "long file": (
        packed(changed(LAST, FILES[LAST] + b"0")),
        f"{len(FILES[LAST]) + 1} bytes, not {len(FILES[LAST])}",
    ),
    "truncated gzip": (WHOLE[: len(WHOLE) // 2], "this gzip file is cut off"),
    "damaged gzip": (WHOLE[:2000] + b"\xff" * 2000 + WHOLE[4000:], "this gzip file is damaged"),
    "truncated tar": (packed(pack=lambda tar: tar[: len(tar) // 2]), "is not a whole tar archive"),
    "page": (b"<html>moved</html>", "is not a whole tar archive"),
    "nothing": (b"", "is not a whole tar archive"),
    "too large": (b"\0" * (MOST + 1), f"sends more than {MOST} bytes"),
    "bomb": (
        packed({"zeros": bytes(20_000_000), **FILES}),
        f"unpacks to more than {MOST} bytes",
    ),
}


@pytest.mark.parametrize("before", [{}, {"test_batch.bin": b"old", "notes": b"mine"}])
@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_leaves_everything_as_it_was(publish, data, failure, before):
    if before:
        tiny_cifar.write(folder_of(ENTRY), before)
    body, message = FAILURES[failure]
    url = publish(body)
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        fetch(ENTRY, url=url)
    assert url in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert files_under(data) == sorted(before)
    assert all((folder_of(ENTRY) / name).read_bytes() == old for name, old in before.items())
    assert len(list(data.iterdir())) == (1 if before else 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"length": len(WHOLE) + 1}, "cut off after"), ({"status": 404}, "the server says 404")],
)
def test_without_the_archive_one_line_says_what_to_do(publish, data, options, message):
    url = publish(WHOLE, **options)
    with pytest.raises(OSError, match=message) as caught:
        fetch(ENTRY, url=url)
    assert caught.value.filename == str(data / "cifar-10-batches-bin")
    for part in (url, f"unpack that file in {data}", "HEAVYSTEP_DATA"):
        assert part in caught.value.strerror
    assert files_under(data) == []


def test_only_so_many_members_are_looked_at(publish, data, monkeypatch):
    monkeypatch.setattr(archive, "MEMBERS", len(FILES))
    assert_whole(fetch(ENTRY, url=publish(WHOLE)))
    with pytest.raises(ValueError, match=NO_LAST):
        fetch(ENTRY, url=publish(packed(first=[member("x")])))


def test_nothing_is_read_beyond_the_last_file(publish, data):
    tar = packed(pack=bytes)
    end = tar.index(FILES[LAST]) + len(FILES[LAST])
    assert_whole(fetch(ENTRY, url=publish(tar[: -(-end // 512) * 512] + b"\xff" * 512)))


def test_a_header_that_states_an_endless_file(publish, data):
    endless = member("x", size=1 << 80).tobuf(tarfile.GNU_FORMAT)
    with pytest.raises(ValueError, match="is not a whole tar archive: it ends too early"):
        fetch(ENTRY, url=publish(gzip.compress(endless)))
    assert files_under(data) == []


def chained(headers):
    """One header that speaks about the next, so many times."""
    about = tarfile.TarInfo("about")
    about.type, about.size = tarfile.XHDTYPE, 0
    return gzip.compress(about.tobuf() * headers)


def test_headers_about_headers_without_end(publish, data, monkeypatch):
    monkeypatch.setattr(archive, "SLACK", 10_000_000)
    with pytest.raises(ValueError, match="is not a whole tar archive"):
        fetch(ENTRY, url=publish(chained(5000)))
    assert files_under(data) == []


@pytest.mark.parametrize("before", [{}, {"test_batch.bin": b"old", "notes": b"mine"}])
def test_interrupted_it_leaves_nothing(publish, data, monkeypatch, before):
    if before:
        tiny_cifar.write(folder_of(ENTRY), before)

    def while_receiving(received, total):
        assert len(list(data.glob(f"{files.PREFIX}*"))) == 1
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(ENTRY, while_receiving, publish(WHOLE))
    copy = archive._copy

    def while_extracting(content, path):
        copy(content, path)
        raise KeyboardInterrupt

    monkeypatch.setattr(archive, "_copy", while_extracting)
    with pytest.raises(KeyboardInterrupt):
        fetch(ENTRY, url=publish(WHOLE))
    assert files_under(data) == sorted(before)
    assert len(list(data.iterdir())) == (1 if before else 0)


def test_a_full_disk_is_told_with_the_name_of_the_folder(publish, data, monkeypatch):
    def full(content, path):
        path.write_bytes(b"some")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(archive, "_copy", full)
    with pytest.raises(OSError, match="No space left") as caught:
        fetch(ENTRY, url=publish(WHOLE))
    assert caught.value.filename == str(folder_of(ENTRY))
    assert files_under(data) == []


def test_a_folder_that_is_there_keeps_its_other_files(publish, data):
    place = folder_of(ENTRY)
    tiny_cifar.write(place, {"test_batch.bin": b"old", "notes": b"mine"})
    fetch(ENTRY, url=publish(WHOLE))
    assert (place / "notes").read_bytes() == b"mine"
    (place / "notes").unlink()
    assert_whole(place)
    assert list(data.iterdir()) == [place]


@pytest.mark.parametrize("which", ["data", "its own"])
def test_a_folder_that_nobody_may_write_to(publish, data, which):
    place = folder_of(ENTRY)
    place.mkdir()
    shut = {"data": data, "its own": place}[which]
    shut.chmod(0o555)
    try:
        with pytest.raises(PermissionError) as caught:
            fetch(ENTRY, url=publish(WHOLE))
    finally:
        shut.chmod(0o755)
    assert caught.value.filename == str(shut)
    assert "set HEAVYSTEP_DATA" in caught.value.strerror


def invoke(*arguments):
    return CliRunner().invoke(app, ["data", *arguments])


@pytest.fixture
def pages(server, publish, data, monkeypatch):
    """Both pages are the server on this machine, and every data set is tiny."""
    monkeypatch.setattr(catalogue, "PAGE", server.address)
    monkeypatch.setattr(cifar, "PAGE", server.address)
    for name in set(CATALOGUE) - {"tiny"}:
        monkeypatch.delitem(CATALOGUE, name)
    publish(TINY_TEXT, "tiny.bz2")
    verse = tiny_verse(publish(VERSE, "verse.txt"))
    TEXTS.clear()
    monkeypatch.setitem(TEXTS, verse.name, verse)
    for name in CIFAR:
        entry, contents = tiny_cifar.tiny(name)
        monkeypatch.setitem(CIFAR, name, entry)
        files = {f"{FOLDERS[name]}/{file}": content for file, content in contents.items()}
        publish(packed(files), entry.archive)
    images = {name: data / FOLDERS[name] for name in CIFAR}
    verses = {verse.name: data / "text" / f"{verse.name}.txt"}
    return {"tiny": data / "libsvm" / "tiny.bz2"} | images | verses


def test_every_kind_is_listed_fetched_and_verified(pages):
    assert invoke("list").stdout.count("not here") == 4
    fetched = invoke("fetch", "cifar100")
    assert (fetched.exit_code, fetched.stderr) == (0, "")
    assert fetched.stdout == f"cifar100: fetched, {pages['cifar100']}\n"
    everything = invoke("fetch", "all")
    assert (everything.exit_code, everything.stderr) == (0, "")
    done = {"tiny": "fetched", "cifar10": "fetched", "cifar100": "already here", "verse": "fetched"}
    assert everything.stdout == "".join(f"{k}: {done[k]}, {pages[k]}\n" for k in pages)
    for names in ([], list(pages)):
        checked = invoke("verify", *names)
        assert checked.exit_code == 0
        assert checked.stdout == "".join(f"{name}: ok, {path}\n" for name, path in pages.items())


def test_the_list_has_the_same_columns_for_every_kind(pages):
    invoke("fetch", "cifar10")
    lines = [line.replace("│", "┃").split("┃")[1:-1] for line in invoke("list").stdout.splitlines()]
    rows = [[cell.strip() for cell in line] for line in lines if len(line) == 5]
    assert rows == [
        ["name", "examples", "features", "entries", "where"],
        ["tiny", "3", "3", "2", "not here"],
        ["cifar10", "27", "3,072", "82,944", str(pages["cifar10"])],
        ["cifar100", "5", "3,072", "15,360", "not here"],
        ["verse", "28", "12", "28", "not here"],
    ]


def test_damaged_images_are_told_and_fetched_again(pages):
    invoke("fetch", "cifar10")
    file = pages["cifar10"] / "data_batch_3.bin"
    whole = file.read_bytes()
    file.write_bytes(flipped(whole))
    checked = invoke("verify")
    assert checked.exit_code == 1
    assert f"cifar10: damaged, {file} is not the published cifar10: its sha256" in checked.stdout
    fetched = invoke("fetch", "cifar10")
    assert fetched.exit_code == 0
    assert fetched.stderr.strip().endswith("; fetching it again")
    assert file.read_bytes() == whole
    assert invoke("verify", "cifar10").exit_code == 0


def test_what_is_missing_of_each_kind_is_one_line(pages):
    checked = invoke("verify")
    assert checked.exit_code == 2
    assert checked.stdout == "".join(f"{name}: missing\n" for name in pages)
    libsvm, images, texts = checked.stderr.splitlines()
    assert "heavystep data fetch tiny'" in libsvm
    assert "heavystep data fetch cifar10 cifar100'" in images
    assert "heavystep data fetch verse'" in texts
    invoke("fetch", "tiny", "cifar10")
    assert invoke("verify").exit_code == 0
    (pages["cifar10"] / "test_batch.bin").unlink()
    checked = invoke("verify", "cifar10", "tiny")
    assert checked.exit_code == 2
    assert checked.stderr.startswith(f"no test_batch.bin in {pages['cifar10']}: ")
    assert invoke("fetch", "cifar10").exit_code == 0
    assert invoke("verify", "cifar10", "tiny").exit_code == 0
