"""Texts: where they are looked for, and that they are the published ones."""

import pytest

from heavystep.data import load_text
from heavystep.data.text import TEXTS, fetch, file_of
from tests.helpers.data_sets import VERSE, tiny_verse


@pytest.fixture
def verse(folder, monkeypatch):
    """The place of a small text in the catalogue, with nothing there."""
    entry = tiny_verse()
    monkeypatch.setitem(TEXTS, entry.name, entry)
    return file_of(entry)


def test_it_is_read_and_line_ends_do_not_count(verse):
    verse.parent.mkdir()
    verse.write_bytes(VERSE)
    assert load_text("verse") == VERSE.decode()
    assert verse.parts[-2:] == ("text", "verse.txt")


def test_a_missing_one_says_what_to_do(verse):
    with pytest.raises(FileNotFoundError) as caught:
        load_text("verse")
    text = caught.value.strerror
    assert text.count("\n") == 0
    for part in (str(verse), "heavystep data fetch verse", "nowhere.invalid", "text/verse.txt"):
        assert part in text


@pytest.mark.parametrize("content", [VERSE[:-1], VERSE.upper()], ids=["shorter", "other"])
def test_another_text_is_refused(verse, content):
    verse.parent.mkdir()
    verse.write_bytes(content)
    with pytest.raises(ValueError, match="is not the published verse"):
        load_text("verse")


def test_the_published_one(monkeypatch):
    """What is known of it, so that a slip in the catalogue is seen where the file is."""
    from tests.helpers.data_sets import NEXT_TO_THE_PROJECT

    monkeypatch.setenv("HEAVYSTEP_DATA", str(NEXT_TO_THE_PROJECT))
    if not file_of(TEXTS["tinyshakespeare"]).is_file():
        pytest.skip("no tinyshakespeare here")
    text = load_text("tinyshakespeare")
    assert text.startswith("First Citizen:")
    assert (len(text), len(set(text))) == (1115394, 65)


def test_unknown_names_and_addresses_are_refused(verse):
    with pytest.raises(ValueError, match="data set must be one of"):
        load_text("sonnets")
    with pytest.raises(ValueError, match="not https"):
        fetch(TEXTS["verse"], url="http://nowhere.invalid/verse.txt")
