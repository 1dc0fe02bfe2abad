"""``heavystep data``, and what the TAB key knows of the laboratory's commands."""

import pytest
from typer.testing import CliRunner

from heavystep.cli.app import app
from heavystep.lab import data
from heavystep.lab.data import SETS
from tests.helpers import tiny_libsvm

GONE = "svmguide1"


@pytest.fixture
def libsvm(tmp_path):
    """All LIBSVM sets but one, tiny."""
    names = [name for name in data.LIBSVM if name != GONE]
    with tiny_libsvm.folder(tmp_path, names) as folder:
        yield folder


def said(*words, status=0):
    result = CliRunner().invoke(app, ["data", *words], env={"COLUMNS": "200"})
    assert result.exit_code == status, result.output
    return result.output


def test_the_list_says_where_each_one_is(libsvm):
    lines = said("list").splitlines()
    found = {name: next(line for line in lines if f" {name} " in line) for name in SETS}
    assert str(libsvm / "a9a") in found["a9a"]
    assert "not here" in found[GONE]
    assert "20,958" not in found["real-sim"]  # a tiny one
    assert str(libsvm.parent) in lines[-1]


def test_verify_tells_whole_damaged_and_missing_apart(libsvm):
    assert said("verify", "a9a", "w8a").count(": ok, ") == 2
    (libsvm / "w8a").write_text("1 1:1\n")
    text = said("verify", status=1)
    assert "w8a: damaged, " in text
    assert f"{GONE}: missing" in text
    assert f"heavystep data fetch {GONE}" in said("verify", "a9a", GONE, status=2)


def test_what_is_here_is_not_fetched_and_what_is_damaged_is(libsvm, monkeypatch):
    asked = []
    monkeypatch.setattr(data, "fetch", lambda name: asked.append(name) or libsvm / name)
    assert "a9a: already here" in said("fetch", "a9a")
    assert f"{GONE}: fetched, " in said("fetch", GONE)
    (libsvm / "w8a").write_text("1 1:1\n")
    assert "fetching it again" in said("fetch", "w8a")
    assert asked == [GONE, "w8a"]
    assert "data set must be one of" in said("fetch", "a9b", status=2)
