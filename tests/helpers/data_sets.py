"""The real data sets for the tests that read them, a tiny one, and comparisons."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from heavystep.data.catalogue import DataSet
from heavystep.data.cifar import CIFAR
from heavystep.lab.data import VARIABLE, present
from heavystep.data.text import Text
from tests.helpers.places import ROOT

NEXT_TO_THE_PROJECT = ROOT.parent / "shared" / "data"


def require(monkeypatch, *names):
    """The files of these data sets, with the data folder set for the test; skip where one is not."""
    if not os.environ.get(VARIABLE) and NEXT_TO_THE_PROJECT.is_dir():
        monkeypatch.setenv(VARIABLE, str(NEXT_TO_THE_PROJECT))
    found = present(names)
    missing = [name for name in names if name not in found]
    if missing:
        pytest.skip(f"no {', '.join(missing)} here; set {VARIABLE}")
    return found


def published_images(empty):
    """A data folder with CIFAR-10 and CIFAR-100, unpacked in ``empty`` if need be; or skip."""
    folder = Path(os.environ.get(VARIABLE) or NEXT_TO_THE_PROJECT)
    if all((folder / entry.folder).is_dir() for entry in CIFAR.values()):
        return folder
    script = folder / "unpack_cifar.py"
    if not script.is_file():
        pytest.skip(f"no CIFAR here; set {VARIABLE}")
    pytest.importorskip("PIL")
    subprocess.run([sys.executable, script, empty], check=True, capture_output=True)
    return empty


TINY_TEXT = b"1 1:0.5\n2 3:1\n2\n"
TINY = DataSet(
    name="tiny",
    title="Tiny",
    n=3,
    dim=3,
    entries=2,
    positives=2,
    text_bytes=len(TINY_TEXT),
    text_sha256=hashlib.sha256(TINY_TEXT).hexdigest(),
    published="tiny.bz2",
)


VERSE = b"to be, or not to be, that is"


def tiny_verse(url="https://nowhere.invalid/verse.txt"):
    """A text of one line."""
    return Text("verse", len(VERSE), len(set(VERSE)), hashlib.sha256(VERSE).hexdigest(), url)


def bits(array):
    return array.dtype.str, array.tobytes()


def assert_same(one, other):
    """Two data sets are equal bit for bit."""
    assert one.rows.dim == other.rows.dim
    for name in ("indptr", "indices", "values"):
        assert bits(getattr(one.rows, name)) == bits(getattr(other.rows, name)), name
    assert bits(one.labels) == bits(other.labels)


def files_under(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())
