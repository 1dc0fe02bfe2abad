"""Text from a file that may be packed with bzip2, xz or gzip.

The first bytes decide, not the ending of the name: a misnamed file is read all the same.
"""

import bz2
import gzip
import hashlib
import lzma
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

BLOCK = 1 << 20
OPENERS = {
    b"BZh": ("bzip2", bz2.open),
    b"\xfd7zXZ\x00": ("xz", lzma.open),
    b"\x1f\x8b": ("gzip", gzip.open),
}
ENDINGS = ("", ".bz2", ".xz", ".gz")
"""How a packed file may be called beside its plain name."""


class TextDigest(NamedTuple):
    """What identifies a text, carriage returns left out: line ends do not count."""

    size: int
    sha256: str


def text_blocks(file: IO[bytes], name: str) -> Iterator[bytes]:
    """The unpacked text in blocks.

    Args:
        file: the stored bytes, from its beginning.
        name: what messages call the file.

    Raises:
        ValueError: a packed file is damaged or cut off.
        OSError: the file cannot be read.
    """
    first = file.read(max(map(len, OPENERS)))
    file.seek(0)
    for magic, (kind, opener) in OPENERS.items():
        if first.startswith(magic):
            yield from _unpacked(cast(Any, opener)(file), kind, name)
            return
    while block := file.read(BLOCK):
        yield block


def _unpacked(stream: IO[bytes], kind: str, name: str) -> Iterator[bytes]:
    while True:
        try:
            block = stream.read(BLOCK)
        except EOFError:
            raise ValueError(f"{name}: this {kind} file is cut off") from None
        except (OSError, lzma.LZMAError, zlib.error) as error:
            if getattr(error, "errno", None):  # the disk, not what is on it
                raise
            raise ValueError(f"{name}: this {kind} file is damaged") from None
        if not block:
            return
        yield block


def text_digest(path: Path) -> TextDigest:
    """Size and sha256 of the unpacked text of a file.

    Args:
        path: the file.
    """
    with path.open("rb") as file:
        return digest_of(text_blocks(file, str(path)))


def digest_of(blocks: Iterable[bytes]) -> TextDigest:
    r"""Size and sha256 of a text in blocks.

    Args:
        blocks: the text.

    >>> digest_of([b"1 1:2\r", b"\n"]) == digest_of([b"1 1:2\n"])
    True
    """
    size, digest = 0, hashlib.sha256()
    for block in blocks:
        text = block.replace(b"\r", b"")
        size += len(text)
        digest.update(text)
    return TextDigest(size, digest.hexdigest())
