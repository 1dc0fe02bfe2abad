"""Published archives of images: of what is in them, only the expected files are ever written.

The archive goes to a temporary file without a name. A member counts when its name, kind, size and
hash are those of the catalogue; its content goes to a new folder, under the catalogue's name. When
all are there the folder is renamed; whatever happens before that leaves nothing behind.
"""

import hashlib
import tarfile
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

from heavystep.data.cifar import ImageSet, folder_of
from heavystep.data.compressed import BLOCK
from heavystep.data.locate import refuse_unwritable
from heavystep.data.published import FileDigest, check_digest, check_size
from heavystep.data.web import SLACK, Progress, answer, receive, silent, unpacked
from heavystep.files import write_folder_atomically

MEMBERS = 100
"""How many members are looked at; the published archives have fewer than ten."""


class Stream:
    """What :mod:`tarfile` asks of a stream, over blocks of any length.

    Args:
        blocks: none of them empty.
    """

    def __init__(self, blocks: Iterator[bytes]):
        self.blocks = blocks

    def read(self, size: int) -> bytes:
        """The next block; its length may be another.

        Args:
            size: what was asked for.

        Raises:
            ReadError: there is none. Given nothing instead, tarfile would go on asking until it
                has skipped the size that a header states, which may be any number.
        """
        block = next(self.blocks, None)
        if block is None:
            raise tarfile.ReadError("it ends too early")
        return block


def fetch(wanted: ImageSet, progress: Progress = silent, url: str | None = None) -> Path:
    """Download a data set of images into the data folder.

    Args:
        wanted: of the catalogue.
        progress: told how far it is.
        url: another place to take its archive from; https, or http on 127.0.0.1.

    Returns:
        The folder.

    Raises:
        ValueError: what came is not the published archive, or is too large.
        OSError: the server cannot be reached or refuses, or the files cannot be written; the
            message says how to go on without a network.
    """
    source, target = url or wanted.url, folder_of(wanted)
    for folder in (target.parent, target):
        refuse_unwritable(folder)
    with answer(source, target, f"unpack that file in {target.parent}") as response:

        def write(folder: Path) -> None:
            with tempfile.TemporaryFile(dir=folder) as packed:
                receive(response, packed, _most(wanted), progress)
                packed.seek(0)
                _extract(wanted, unpacked(packed, source, _most(wanted)), source, folder)

        write_folder_atomically(target, write)
    return target


def _most(wanted: ImageSet) -> int:
    """The most bytes that the archive may have, packed or not."""
    return sum(map(wanted.file_bytes, wanted.files)) + SLACK


def _extract(wanted: ImageSet, blocks: Iterator[bytes], source: str, folder: Path) -> None:
    expected = {f"{wanted.folder}/{file.name}": file for file in wanted.files}
    try:
        stream = cast(Any, Stream(blocks))
        with tarfile.open(fileobj=stream, mode="r|", bufsize=BLOCK) as archive:
            for member in islice(archive, MEMBERS):
                file = expected.pop(member.name, None)
                if file is None:
                    continue
                called = f"{member.name} in {source}"
                if not member.isreg():
                    raise ValueError(f"{called} is not a plain file")
                size = wanted.file_bytes(file)
                check_size(called, wanted.name, member.size, size)
                found = _copy(cast(IO[bytes], archive.extractfile(member)), folder / file.name)
                check_digest(called, wanted.name, found, FileDigest(size, file.sha256))
                if not expected:
                    return
    except (tarfile.TarError, RecursionError) as error:
        raise ValueError(f"{source} is not a whole tar archive: {error}") from None
    raise ValueError(f"{source} has no {', '.join(expected)}")


def _copy(content: IO[bytes], path: Path) -> FileDigest:
    size, digest = 0, hashlib.sha256()
    with path.open("xb") as file:
        while block := content.read(BLOCK):
            size += len(block)
            digest.update(block)
            file.write(block)
    return FileDigest(size, digest.hexdigest())
