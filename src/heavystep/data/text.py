"""Text to learn characters from: the file ``text/tinyshakespeare.txt`` in the data folder.

Plays of Shakespeare, as A. Karpathy's char-rnn (2015) published them; nanoGPT measures on the same
file: validation loss 1.4697 after 5,000 steps of its character model, 1.88 in its size for a CPU.
"""

import errno
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from heavystep import validation
from heavystep.data.compressed import digest_of, text_digest
from heavystep.data.locate import data_folder, refuse_unwritable, remedy
from heavystep.data.published import FileDigest, check_digest
from heavystep.data.web import SLACK, Progress, answer, receive, silent, unpacked
from heavystep.files import write_atomically


@dataclass(frozen=True)
class Text:
    """A published text.

    Args:
        name: what it is called here.
        n: characters, each of them a byte.
        dim: different characters.
        sha256: its hash.
        url: where it is published.
    """

    name: str
    n: int
    dim: int
    sha256: str
    url: str

    @property
    def entries(self) -> int:
        """Characters."""
        return self.n


TEXTS = {
    text.name: text
    for text in (
        Text(
            "tinyshakespeare", 1115394, 65,
            "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
            "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
        ),
    )
}  # fmt: skip


def load_text(name: str) -> str:
    """The text of a name.

    Args:
        name: 'tinyshakespeare'.

    Raises:
        ValueError: there is no such text, or the file is not the published one.
        OSError: it is not there, or cannot be read; where it is not there the message says what to
            do.
    """
    validation.choice("data set", name, TEXTS)
    if missing := missing_text([name]):
        raise FileNotFoundError(errno.ENOENT, missing, name)
    path = file_of(TEXTS[name])
    verify(TEXTS[name], path)
    return path.read_text(encoding="ascii")


def file_of(wanted: Text) -> Path:
    """Where it belongs.

    Args:
        wanted: of the catalogue.
    """
    return data_folder() / "text" / f"{wanted.name}.txt"


def present(names: Iterable[str]) -> dict[str, Path]:
    """Those texts that are there, with their files.

    Args:
        names: of the catalogue.
    """
    files = {name: file_of(TEXTS[name]) for name in names}
    return {name: file for name, file in files.items() if file.is_file()}


def missing_text(names: Iterable[str]) -> str:
    """One line about texts that are not there: where they belong and what to do; '' if none.

    Args:
        names: of the catalogue; those that are there are passed over.
    """
    names = list(names)
    here = present(names)
    missing = [TEXTS[name] for name in names if name not in here]
    if not missing:
        return ""
    files = " and ".join(str(file_of(each)) for each in missing)
    offline = " and ".join(f"put {each.url} there as {file_of(each).name}" for each in missing)
    return remedy(files, [each.name for each in missing], offline, f"text/{missing[0].name}.txt")


def verify(wanted: Text, path: Path) -> None:
    """Refuse what is not the published text; line ends do not count.

    Args:
        wanted: of the catalogue.
        path: the file.

    Raises:
        ValueError: size or hash differ.
        OSError: it cannot be read.
    """
    _check(wanted, text_digest(path), str(path))


def _check(wanted: Text, found: FileDigest, file: str) -> None:
    check_digest(file, wanted.name, found, FileDigest(wanted.n, wanted.sha256), "text")


def fetch(wanted: Text, progress: Progress = silent, url: str | None = None) -> Path:
    """Download a text into the data folder.

    Args:
        wanted: of the catalogue.
        progress: told how far it is.
        url: another place to take it from; https, or http on 127.0.0.1.

    Returns:
        The file.

    Raises:
        ValueError: what came is not the published text.
        OSError: the server cannot be reached, or the file cannot be written.
    """
    source, target = url or wanted.url, file_of(wanted)
    refuse_unwritable(target.parent)
    with answer(source, target, f"put that file there as {target.name}") as response:

        def write(temporary: Path) -> None:
            with temporary.open("w+b") as file:
                receive(response, file, wanted.n + SLACK, progress)
                file.seek(0)
                _check(wanted, digest_of(unpacked(file, source, wanted.n + SLACK)), source)

        write_atomically(target, write)
    return target
