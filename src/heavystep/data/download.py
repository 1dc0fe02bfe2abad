"""Files in LIBSVM's format from the web: bounded, checked, in place at once or not at all.

The file goes to a temporary name in its folder. Only when its text has the hash of the catalogue
is it renamed; whatever happens before that leaves nothing behind.
"""

from pathlib import Path

from heavystep.data.catalogue import DataSet
from heavystep.data.compressed import digest_of
from heavystep.data.locate import published_place, refuse_unwritable
from heavystep.data.verify import check_text
from heavystep.data.web import SLACK, Progress, answer, receive, silent, unpacked
from heavystep.files import write_atomically


def fetch(wanted: DataSet, progress: Progress = silent, url: str | None = None) -> Path:
    """Download a data set into the data folder, in the form in which it is published.

    Args:
        wanted: of the catalogue.
        progress: told how far it is.
        url: another place to take it from; https, or http on 127.0.0.1.

    Returns:
        The file.

    Raises:
        ValueError: what came is not the published file, or is too large.
        OSError: the server cannot be reached or refuses, or the file cannot be written; the
            message says how to go on without a network.
    """
    source, target = url or wanted.url, published_place(wanted)
    refuse_unwritable(target.parent)
    with answer(source, target, "put that file there") as response:

        def write(temporary: Path) -> None:
            with temporary.open("w+b") as file:
                receive(response, file, _most(wanted), progress)
                file.seek(0)
                text = unpacked(file, source, _most(wanted))
                check_text(wanted, digest_of(text), source)

        write_atomically(target, write)
    return target


def _most(wanted: DataSet) -> int:
    """The most bytes that the file or its text may have: each line may end in two."""
    return wanted.text_bytes + wanted.n + SLACK
