"""Text from a file that may be packed with bzip2, xz or gzip.

The first bytes decide, not the ending of the name: a misnamed file is read all the same. A small
file that unpacks to a huge one is refused on the way.
"""

import bz2
import gzip
import hashlib
import io
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from heavystep.data.published import FileDigest

BLOCK = 1 << 20
STREAMS: dict[bytes, tuple[str, Callable[[], Any]]] = {
    b"BZh": ("bzip2", bz2.BZ2Decompressor),
    b"\xfd7zXZ\x00": ("xz", lzma.LZMADecompressor),
}
GZIP = b"\x1f\x8b"
ENDINGS = ("", ".bz2", ".xz", ".gz")
"""How a packed file may be called beside its plain name."""
RATIO, ALLOWED = 1000, 1 << 26
"""A text may be so many times as long as what it was packed to, and so many bytes in any case.
Rows of numbers pack to a fifth, or a hundredth where they repeat."""


def text_blocks(file: IO[bytes], name: str) -> Iterator[bytes]:
    """The unpacked text in blocks.

    Args:
        file: the stored bytes, from its beginning.
        name: what messages call the file.

    Raises:
        ValueError: a packed file is damaged, cut off, or unpacks to far more than any data do.
        OSError: the file cannot be read.
    """
    first = file.read(max(map(len, STREAMS)))
    file.seek(0)
    for magic, (kind, make) in STREAMS.items():
        if first.startswith(magic):
            return _bounded(_unpacked(file, magic, kind, make, name), file, name)
    if first.startswith(GZIP):
        return _bounded(_gunzipped(file, name), file, name)
    return iter(lambda: file.read(BLOCK), b"")


def _bounded(texts: Iterator[bytes], file: IO[bytes], name: str) -> Iterator[bytes]:
    """The same blocks, as long as they are not too many for the file."""
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    length = 0
    for text in texts:
        length += len(text)
        if length > ALLOWED + RATIO * size:
            raise ValueError(
                f"{name}: {size} bytes unpack to more than {length - len(text)}, {RATIO} times as "
                "many; unpack it yourself if this is meant"
            )
        yield text


def _unpacked(
    file: IO[bytes], magic: bytes, kind: str, make: Callable[[], Any], name: str
) -> Iterator[bytes]:
    """One packed stream after another; anything else after the first is damage.

    The readers of the standard library pass over what follows a stream and does not begin one, so
    that a damaged second stream would be rows that are silently missing.
    """
    packed = file.read(BLOCK)
    while packed := _begun(packed, file, len(magic)):
        if not packed.startswith(magic):
            raise ValueError(f"{name}: this {kind} file is damaged")
        stream = make()
        while not stream.eof:
            packed = packed or (file.read(BLOCK) if stream.needs_input else b"")
            if stream.needs_input and not packed:
                raise ValueError(f"{name}: this {kind} file is cut off")
            try:
                text = stream.decompress(packed, BLOCK)
            except (OSError, EOFError, lzma.LZMAError):
                raise ValueError(f"{name}: this {kind} file is damaged") from None
            packed = b""
            if text:
                yield text
        packed = stream.unused_data


def _begun(packed: bytes, file: IO[bytes], length: int) -> bytes:
    """At least so many bytes of what comes next; zeros between streams are padding."""
    packed = packed.lstrip(b"\0")
    while len(packed) < length and (more := file.read(BLOCK)):
        packed = (packed + more).lstrip(b"\0")
    return packed


def _gunzipped(file: IO[bytes], name: str) -> Iterator[bytes]:
    stream = gzip.GzipFile(fileobj=file)
    while True:
        try:
            block = stream.read(BLOCK)
        except EOFError:
            raise ValueError(f"{name}: this gzip file is cut off") from None
        except (OSError, zlib.error) as error:
            if getattr(error, "errno", None):  # the disk, not what is on it
                raise
            raise ValueError(f"{name}: this gzip file is damaged") from None
        if not block:
            return
        yield block


def text_digest(path: Path) -> FileDigest:
    """Size and sha256 of the unpacked text of a file.

    Args:
        path: the file.
    """
    with path.open("rb") as file:
        return digest_of(text_blocks(file, str(path)))


def digest_of(blocks: Iterable[bytes]) -> FileDigest:
    r"""Size and sha256 of a text in blocks.

    Args:
        blocks: the text.

    >>> digest_of([b"1 1:2\r", b"\n"]) == digest_of([b"1 1:2\n"])
    True
    """
    digest = Digest()
    for _ in digest.passing(blocks):
        pass
    return digest.value()


class Digest:
    """Identifies a text while somebody else reads it; carriage returns do not count."""

    def __init__(self) -> None:
        self._size, self._hash = 0, hashlib.sha256()

    def passing(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """The blocks, one after another, as they come."""
        for block in blocks:
            text = block.replace(b"\r", b"")
            self._size += len(text)
            self._hash.update(text)
            yield block

    def value(self) -> FileDigest:
        """What has passed so far."""
        return FileDigest(self._size, self._hash.hexdigest())
