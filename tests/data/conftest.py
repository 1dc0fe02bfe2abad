"""Folders of a test's own in place of the user's."""

import pytest

from heavystep.data.catalogue import CATALOGUE
from heavystep.data.cifar import CIFAR
from heavystep.data.text import TEXTS
from tests.helpers.data_sets import TINY


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The user's cache folder."""
    monkeypatch.setenv("HEAVYSTEP_CACHE", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def folder(tmp_path, home, monkeypatch):
    """A data folder with nothing in it, and a catalogue with one more, tiny data set."""
    before = [(catalogue, dict(catalogue)) for catalogue in (CATALOGUE, CIFAR, TEXTS)]
    monkeypatch.setitem(CATALOGUE, "tiny", TINY)
    monkeypatch.setenv("HEAVYSTEP_DATA", str(tmp_path / "data"))
    (tmp_path / "data" / "libsvm").mkdir(parents=True)
    yield tmp_path / "data" / "libsvm"
    # What a test takes out comes back at the end; figures go by the order.
    for catalogue, content in before:
        catalogue.clear()
        catalogue.update(content)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    """The server on this machine is asked directly."""
    monkeypatch.setenv("no_proxy", "*")
